package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDestinationOfAnBackup: directories of a mistyped path are not made; the directory for
// backups is.
func TestDestinationOfAnBackup(t *testing.T) {
	dir, d := usedDirectory(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	_, errs, code := runCLI(t, "backup", "save", "--data-dir", dir, filepath.Join(missing, "sub", "a.tar.gz"))
	if code != ExitUsage || !strings.Contains(errs, "the directory "+filepath.Join(missing, "sub")+" does not exist") {
		t.Errorf("exit code %d:\n%s", code, errs)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("it has made %s: %v", missing, err)
	}
	_, errs, _ = runCLI(t, "backup", "save", "--data-dir", dir, filepath.Join(dir, "backups", "a.tar.gz"))
	if strings.Contains(errs, "does not exist: make it first") {
		t.Errorf("it refuses the directory for backups:\n%s", errs)
	}
}
