package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestKubeconfigCommand(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	written := harness.ReadFile(t, s.Kubeconfig)
	if printed := harness.Runs(t, harness.ExitOK, "kubeconfig", "--data-dir", s.Dir); printed != string(written) {
		t.Error("the printed kubeconfig is not the one in the data directory")
	}
	info, err := os.Stat(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig has the mode %o", info.Mode().Perm())
	}
	harness.Contains(t, harness.Runs(t, harness.ExitNotReady, "kubeconfig", "--data-dir", t.TempDir()), "start the server first")

	file := filepath.Join(t.TempDir(), "mini.kubeconfig")
	for _, more := range [][]string{nil, {"--force"}} {
		harness.Runs(t, harness.ExitOK, append([]string{"kubeconfig", "-o", file, "--data-dir", s.Dir}, more...)...)
		if data, err := os.ReadFile(file); err != nil || !bytes.Equal(data, written) {
			t.Errorf("the file has %s, %v", data, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file: %v, %v", info, err)
		}
		if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	harness.Contains(t, harness.Runs(t, harness.ExitUsage, "kubeconfig", "-o", file, "--data-dir", s.Dir), "the file exists")
}

// TestKubeconfigMerge: kubectl uses the merged context, and the others are kept.
func TestKubeconfigMerge(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	path := filepath.Join(t.TempDir(), "config")
	harness.WriteFile(t, path, "apiVersion: v1\nkind: Config\ncurrent-context: work\ncontexts: [{name: work, context: {cluster: work, user: me}}]\n")
	out, code := harness.CLIWith(t, []string{"KUBECONFIG=" + path}, "kubeconfig", "--data-dir", s.Dir, "--merge", "--context", "mini")
	if code != harness.ExitOK {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	harness.Contains(t, out, `context "mini" is in `+path+"; the file as it was is "+path+".backup")
	if out, err := harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", path, "--context", "mini", "get", "namespaces"); err != nil {
		t.Errorf("the merged context does not work: %v\n%s", err, out)
	}
	if merged, err := clientcmd.LoadFromFile(path); err != nil || merged.CurrentContext != "work" || len(merged.Contexts) != 2 {
		t.Errorf("contexts %v, %v", merged.Contexts, err)
	}
}

// TestExternalHostElsewhere: commands on the server's machine do not need the name that other
// machines use. What they issue has it.
func TestExternalHostElsewhere(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, "--config", harness.ConfigFile(t, "serving: {externalHost: mini.invalid}"))
	at := []string{"--data-dir", s.Dir}
	out := harness.Runs(t, harness.ExitOK, append([]string{"kubeconfig", "create", "jane"}, at...)...)
	harness.Contains(t, out, "server: https://mini.invalid:")
	out = harness.Runs(t, harness.ExitOK, append([]string{"kubeconfig", "create", "joe", "-o", filepath.Join(t.TempDir(), "joe.kubeconfig")}, at...)...)
	harness.Contains(t, out, "https://mini.invalid:")
	out = harness.Runs(t, harness.ExitOK, append(append([]string{"kubectl"}, at...), "get", "namespace", "default", "-o", "name")...)
	harness.Contains(t, out, "namespace/default")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, append([]string{"status"}, at...)...), "mini.invalid")
}
