package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestWaitForInvalidConfiguration: status does not wait for what a wait cannot correct.
func TestWaitForInvalidConfiguration(t *testing.T) {
	ended := make(chan int, 1)
	go func() {
		_, _, code := runCLI(t, "status", "--wait", "24h", "--config", filepath.Join(t.TempDir(), "none.yaml"))
		ended <- code
	}()
	select {
	case code := <-ended:
		if code != ExitUsage {
			t.Errorf("exit code %d, want %d", code, ExitUsage)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command waits")
	}
}

// usedDirectory returns a data directory that is in use until it is closed.
func usedDirectory(t *testing.T) (string, *datadir.Dir) {
	t.Helper()
	dir, stamp := filepath.Join(t.TempDir(), "data"), datadir.CurrentStamp()
	d, err := datadir.Open(dir, stamp)
	if err == nil {
		err = d.WriteStamp(stamp)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, d
}

// TestResetOfADirectoryInUse: reset refuses it without a question.
func TestResetOfADirectoryInUse(t *testing.T) {
	dir, d := usedDirectory(t)
	out, errs, code := runCLI(t, "reset", "--data-dir", dir)
	if code != ExitFailure || !strings.Contains(errs, "is in use") || strings.Contains(errs, "Type yes") || out != "" {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := runCLI(t, "reset", "--data-dir", dir); code != ExitUsage || !strings.Contains(errs, "Type yes") {
		t.Errorf("unused: exit code %d:\n%s", code, errs)
	}
}
