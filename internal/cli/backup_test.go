package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestDestinationOfAnBackup: directories of a mistyped path are not made; the directory for
// backups is.
func TestDestinationOfAnBackup(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	stamp := datadir.CurrentStamp()
	d, err := datadir.Open(dir, stamp)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.WriteStamp(stamp), d.Close()); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, command := range []string{"backup save"} {
		args := append(strings.Fields(command), "--data-dir", dir)
		_, errs, code := runCLI(t, append(args, filepath.Join(missing, "sub", "a.tar.gz"))...)
		if code != ExitUsage || !strings.Contains(errs, "the directory "+filepath.Join(missing, "sub")+" does not exist") {
			t.Errorf("%s: exit code %d:\n%s", command, code, errs)
		}
		if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s has made %s: %v", command, missing, err)
		}
		_, errs, _ = runCLI(t, append(args, filepath.Join(dir, "backups", "a.tar.gz"))...)
		if strings.Contains(errs, "does not exist: make it first") {
			t.Errorf("%s refuses the directory for backups:\n%s", command, errs)
		}
	}
}
