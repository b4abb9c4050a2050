package console

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// startKubeAPIServer starts kube-apiserver and etcd and returns an administrator's
// kubeconfig.
func startKubeAPIServer(t *testing.T) (kubeconfig string) {
	t.Helper()
	assets := filepath.Join(t.TempDir(), "assets")
	if err := os.Mkdir(assets, 0o755); err != nil {
		t.Fatal(err)
	}
	stamp := "-X k8s.io/component-base/version.gitVersion=" + harness.KubernetesVersion(t)
	for name, path := range map[string]string{
		"kube-apiserver": harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "k8s.io/kubernetes/cmd/kube-apiserver", "kube-apiserver", "-ldflags", stamp),
		"etcd":           harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "go.etcd.io/etcd/server/v3", "etcd"),
		"kubectl":        harness.KubectlBinary(t),
	} {
		if err := os.Symlink(path, filepath.Join(assets, name)); err != nil {
			t.Fatal(err)
		}
	}
	environment := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: harness.Patience, ControlPlaneStopTimeout: harness.Patience}
	if _, err := environment.Start(); err != nil {
		t.Fatalf("start kube-apiserver and etcd: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stop kube-apiserver and etcd: %v", err)
		}
	})
	user, err := environment.ControlPlane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	harness.WriteFile(t, kubeconfig, string(text))
	return kubeconfig
}

// TestKubeAPIServer: the console works with kube-apiserver and etcd. The overview leaves
// out what kube-hyper-mini alone reports.
func TestKubeAPIServer(t *testing.T) {
	if os.Getenv("KHM_KUBE_APISERVER") == "" {
		t.Skip("make console-kube-apiserver runs it: it builds kube-apiserver, which takes minutes")
	}
	path := startKubeAPIServer(t)
	kubectl := func(stdin string, args ...string) string {
		t.Helper()
		out, err := harness.Run(t, stdin, harness.KubectlBinary(t), append([]string{"--kubeconfig", path}, args...)...)
		if err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
		return out
	}
	kubectl("", "apply", "-f", "testdata/crds.yaml")
	kubectl("", "wait", "--for=condition=Established", "crds", "--all", "--timeout=60s")
	kubectl("", "apply", "-f", "testdata/objects.yaml")

	p := open(t, launch(t, "--kubeconfig", path), "")
	p.sees("ready", "checks passed", harness.KubernetesVersion(t), "Requests per second", "Warnings and events")
	p.lacks("measuring")
	p.lacks("Last backup")
	p.visit("#/types?show=populated&q=cloud.example")
	p.shows(".type-row:not(.head)", "Database", "2")
	p.visit("#/objects/cloud.example.org/v1/databases")
	p.sees("2 objects", "postgres")
	kubectl("", "patch", "database", "users", "-n", "shop", "--type=merge", "-p", `{"spec":{"size":77}}`)
	p.shows(".object-row", "users", "77")
	p.visit("#/object/cloud.example.org/v1/databases/shop/orders?tab=tree")
	p.sees("orders-log")
	p.visit("#/schema/cloud.example.org/v1/databases?compare=v1beta1")
	p.sees("spec.gigabytes")
	p.visit("#/access?verb=delete&type=cloud.example.org/v1/databases")
	p.sees("system:masters", "cluster-admin")
	p.visit("#/edit/cloud.example.org/v1/databases/shop/users")
	p.write("apiVersion: cloud.example.org/v1\nkind: Database\nmetadata:\n  name: users\n  namespace: shop\n  labels: {app: users}\nspec:\n  engine: mysql\n  size: 78\n")
	p.click("Review")
	p.sees("A person has set fields", "kubectl-patch")
	p.click("Take the fields over")
	p.sees("dry run")
	p.click("Apply")
	p.sees("Metadata")
	p.click("Delete")
	p.sees("Delete Database users?", "Nothing depends on it.")
	p.run("delete", clickIn("dialog[open] .danger"))
	p.sees("1 object")
	if left := kubectl("", "get", "databases", "-n", "shop", "-o", "name"); left != "database.cloud.example.org/orders\n" {
		t.Errorf("these are left: %s", left)
	}
}
