package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// TestCommandsUseTheServersConfiguration: what the server has recorded in its data directory
// counts, wherever the directory is now, unless --config names another file.
func TestCommandsUseTheServersConfiguration(t *testing.T) {
	file := writeFile(t, "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\ndataDir: /elsewhere\nbackup: {dir: backups-of-it}\n")
	served, _, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := served.Complete(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, filepath.Join(dir, config.UsedFile), string(served.UsedContent()))
	backups := filepath.Join(filepath.Dir(file), "backups-of-it")
	_, errs, _ := runCLI(t, "backup", "list", "--data-dir", dir)
	if !strings.Contains(errs, backups) || strings.Count(errs, "from "+file) != 1 {
		t.Errorf("the record is not used, or not named once:\n%s", errs)
	}
	if _, errs, _ := runCLI(t, "status", "--data-dir", dir); !strings.Contains(errs, filepath.Join(dir, "admin.kubeconfig")) {
		t.Errorf("a path below the recorded data directory is used:\n%s", errs)
	}
	plain := writeFile(t, "")
	if _, errs, _ := runCLI(t, "backup", "list", "--data-dir", dir, "--config", plain); strings.Contains(errs, backups) {
		t.Errorf("--config does not override the record:\n%s", errs)
	}
	if out, _, _ := runCLI(t, "config", "print", "--data-dir", dir); strings.Contains(out, backups) {
		t.Errorf("config print, which prints that of a new server, uses the record:\n%s", out)
	}
	saved, _, _ := runCLI(t, "config", "print", "--data-dir", "/elsewhere")
	if out, _, _ := runCLI(t, "config", "print", "--data-dir", dir, "--config", writeFile(t, saved)); strings.Contains(out, "/elsewhere") {
		t.Errorf("the configuration of another data directory, as a backup has it, is not that of this one:\n%s", out)
	}
	put(t, filepath.Join(dir, config.UsedFile), "{")
	if _, errs, code := runCLI(t, "status", "--data-dir", dir); code != ExitUsage || !strings.Contains(errs, "--config; the next start") {
		t.Errorf("a damaged record: code %d\n%s", code, errs)
	}
}
