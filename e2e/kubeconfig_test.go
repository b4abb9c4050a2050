package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestKubeconfigCommand(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	written, err := os.ReadFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
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

// theirs writes a kubeconfig that a user already has.
func theirs(t *testing.T) (path string, content []byte) {
	t.Helper()
	config := api.NewConfig()
	config.Clusters["work"] = &api.Cluster{Server: "https://work.example.com"}
	config.AuthInfos["me"] = &api.AuthInfo{Token: "secret"}
	config.Contexts["work"] = &api.Context{Cluster: "work", AuthInfo: "me"}
	config.CurrentContext = "work"
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, content, 0o640); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestKubeconfigMerge(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	path, before := theirs(t)
	merge := func(more ...string) string {
		t.Helper()
		out, code := harness.CLIWith(t, []string{"KUBECONFIG=" + path}, append([]string{"kubeconfig", "--data-dir", s.Dir, "--merge"}, more...)...)
		if code != harness.ExitOK {
			t.Fatalf("exit code %d:\n%s", code, out)
		}
		return out
	}
	out := merge("--context", "mini")
	harness.Contains(t, out, `context "mini"`, path)
	backups, err := filepath.Glob(path + ".backup-*")
	if err != nil || len(backups) != 1 {
		t.Fatalf("backups: %v %v", backups, err)
	}
	harness.Contains(t, out, backups[0])
	if backup, err := os.ReadFile(backups[0]); err != nil || !bytes.Equal(backup, before) {
		t.Errorf("the backup is not the file as it was: %v\n%s", err, backup)
	}
	merged, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if merged.CurrentContext != "work" || merged.AuthInfos["me"].Token != "secret" {
		t.Errorf("the merge has changed what was there: current context %q, contexts %v", merged.CurrentContext, merged.Contexts)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file's mode: %v %v", info.Mode(), err)
	}
	out, err = harness.Run(t, "", harness.KubectlBinary(t), "--kubeconfig", path, "--context", "mini", "get", "namespaces")
	if err != nil {
		t.Errorf("the merged context does not work: %v\n%s", err, out)
	}
	merge("--context", "mini", "--use")
	if merged, err = clientcmd.LoadFromFile(path); err != nil || merged.CurrentContext != "mini" || len(merged.Contexts) != 2 {
		t.Errorf("after --use: current context %q, contexts %v, %v", merged.CurrentContext, merged.Contexts, err)
	}
}

// TestKubeconfigMergeKeepsOtherFiles: other files are not replaced by a
// kubeconfig.
func TestKubeconfigMergeKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte("- a\n- list\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Contains(t, harness.Runs(t, harness.ExitFailure, "kubeconfig", "--data-dir", s.Dir, "--merge", "--into", path), "is not a kubeconfig", "nothing was changed")
	if content, err := os.ReadFile(path); err != nil || string(content) != "- a\n- list\n" {
		t.Errorf("the file is now %q %v", content, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
	// A missing file is created, readable by its owner only.
	path = filepath.Join(t.TempDir(), "deep", "config")
	harness.Runs(t, harness.ExitOK, "kubeconfig", "--data-dir", s.Dir, "--merge", "--into", path)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the new file: %v %v", info, err)
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
	out = harness.Runs(t, harness.ExitOK, append([]string{"kubeconfig", "scrape", filepath.Join(t.TempDir(), "scrape")}, at...)...)
	harness.Contains(t, out, "https://mini.invalid:")
	out = harness.Runs(t, harness.ExitOK, append(append([]string{"kubectl"}, at...), "get", "namespace", "default", "-o", "name")...)
	harness.Contains(t, out, "namespace/default")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, append([]string{"status"}, at...)...), "mini.invalid")
}
