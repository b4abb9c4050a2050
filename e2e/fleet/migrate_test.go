package fleet

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestMigrationToAnExternalEtcd follows "Out of the embedded etcd" of the topic several-servers,
// with a cluster of three members at its end.
func TestMigrationToAnExternalEtcd(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	createNamespace(t, s, "moved")
	populated(t, s, "moved")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "value"}}
	if _, err := s.Client().CoreV1().Secrets("moved").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := s.RESTConfig()
	s.Stop()

	dir := t.TempDir()
	archive := filepath.Join(dir, "move.tar.gz")
	if out, code := harness.CLI(t, "backup", "save", "--data-dir", s.Dir, archive); code != 0 {
		t.Fatalf("save ended with exit code %d:\n%s", code, out)
	}
	run(t, "tar", "-C", dir, "-xzf", archive, "etcd/snapshot.db")
	etcdutl := harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "go.etcd.io/etcd/etcdutl/v3", "etcdutl")
	var names, peers, dirs []string
	for _, name := range []string{"a", "b", "c"} {
		names, peers, dirs = append(names, name), append(peers, freeURL(t)), append(dirs, filepath.Join(dir, name))
	}
	for i, name := range names {
		run(t, etcdutl, "snapshot", "restore", filepath.Join(dir, "etcd", "snapshot.db"), "--data-dir", dirs[i], "--name", name,
			"--initial-cluster", initialCluster(names, peers), "--initial-advertise-peer-urls", peers[i],
			"--bump-revision", "1000000000", "--mark-compacted")
	}
	members := clusterIn(t, names, peers, dirs)

	// The data directory keeps the identity, and its etcd is not used any more.
	if err := os.Rename(filepath.Join(s.Dir, "etcd"), filepath.Join(dir, "embedded")); err != nil {
		t.Fatal(err)
	}
	again := harness.StartIn(t, s.Dir, "--config", onEtcd(t, endpoints(members), ""))
	got, err := again.Client().CoreV1().Secrets("moved").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || string(got.Data["key"]) != "value" {
		t.Errorf("the secret is %v, %v", got.Data, err)
	}
	if after := again.RESTConfig(); string(after.CAData) != string(before.CAData) || string(after.CertData) != string(before.CertData) {
		t.Error("kubeconfigs from before do not work any more")
	}
	createNamespace(t, again, "after")
	populated(t, again, "after")
	if _, err := os.Stat(filepath.Join(s.Dir, "etcd")); err == nil {
		t.Error("an embedded etcd was started too")
	}
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := harness.Run(t, "", program, args...); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}
