package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestTimeZones: the program has them by itself, in a root without files as that of the image.
func TestTimeZones(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may change the root directory")
	}
	t.Parallel()
	root := t.TempDir()
	program, err := os.ReadFile(harness.Binary(t))
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "program"), program, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\nbackup: {schedule: CRON_TZ=Europe/Berlin 0 3 * * *}\n"
	harness.WriteFile(t, filepath.Join(root, "config.yaml"), text)
	cmd := exec.CommandContext(t.Context(), "/program", "config", "validate", "/config.yaml")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", []string{"HOME=/"}, &syscall.SysProcAttr{Chroot: root}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
