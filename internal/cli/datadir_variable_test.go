package cli

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestDataDirVariable: commands that find a server use KUBE_HYPER_MINI_DATA_DIR unless flags
// name the server.
func TestDataDirVariable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "variable")
	t.Setenv("KUBE_HYPER_MINI_DATA_DIR", dir)
	archive := filepath.Join(t.TempDir(), "archive.tar.gz")
	for _, line := range []string{
		"status", "backup save " + archive, "backup list", "bundle create " + archive, "kubeconfig", "kubeconfig create jane", "certs list",
		"certs rotate client", "certs revoke-admin", "encryption rotate", "defrag", "doctor", "console",
	} {
		if out, errs, code := runCLI(t, strings.Fields(line)...); !strings.Contains(out+errs, dir) || code == ExitUsage {
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
	if out, _, code := runCLI(t, "config", "print"); code != ExitOK || strings.Contains(out, dir) {
		t.Errorf("config print follows the variable:\n%s", out)
	}
}

// TestDataDirVariableInUsage: commands that fill or remove a data directory do not use the
// variable, and the usage of each command says what it does.
func TestDataDirVariableInUsage(t *testing.T) {
	own := []string{"server", "apiserver", "controllers", "etcd", "config print", "reset", "backup restore", "bundle import"}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "kube-hyper-mini ")
		if flag := cmd.Flags().Lookup("data-dir"); flag != nil && strings.Contains(flag.Usage, "KUBE_HYPER_MINI_DATA_DIR") == slices.Contains(own, path) {
			t.Errorf("%s: %s", path, flag.Usage)
		}
		for _, child := range cmd.Commands() {
			visit(child)
		}
	}
	visit(newRoot(Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}))
}

// writeFile makes a configuration file.
func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
