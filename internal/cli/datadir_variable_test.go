package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDataDirVariable: all commands use KUBE_HYPER_MINI_DATA_DIR unless flags name the server.
func TestDataDirVariable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "variable")
	t.Setenv("KUBE_HYPER_MINI_DATA_DIR", dir)
	archive := filepath.Join(t.TempDir(), "archive.tar.gz")
	for _, line := range []string{
		"status", "backup save " + archive, "backup list", "kubeconfig", "kubeconfig create jane",
		"certs list", "certs rotate client", "certs revoke-admin", "encryption rotate", "defrag", "doctor", "console", "reset", "config print",
	} {
		out, errs, code := runCLI(t, strings.Fields(line)...)
		if !strings.Contains(out+errs, dir) || code == ExitUsage {
			t.Errorf("%s ends with %d and does not use the variable:\n%s%s", line, code, out, errs)
		}
	}
	named := t.TempDir()
	if _, errs, _ := runCLI(t, "status", "--data-dir", named); !strings.Contains(errs, named) || strings.Contains(errs, dir) {
		t.Errorf("with --data-dir:\n%s", errs)
	}
	file := writeFile(t, "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\ndataDir: "+named+"\n")
	if _, errs, _ := runCLI(t, "status", "--config", file); !strings.Contains(errs, named) || strings.Contains(errs, dir) {
		t.Errorf("with --config:\n%s", errs)
	}
}

// TestRestoreUsesTheVariable: it names the directory, but its content is replaced only with
// --data-dir.
func TestRestoreUsesTheVariable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBE_HYPER_MINI_DATA_DIR", dir)
	stamp := `{"format":1,"version":"v0.0.0-dev","kubernetes":"v1.36.3","etcd":"3.6.16"}`
	put(t, filepath.Join(dir, "version.json"), stamp)
	if _, errs, code := runCLI(t, "backup", "restore", "none.tar.gz"); code != ExitUsage || !strings.Contains(errs, "name it with --data-dir "+dir) {
		t.Errorf("exit code %d:\n%s", code, errs)
	}
}

// writeFile makes a configuration file.
func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, content)
	return path
}
