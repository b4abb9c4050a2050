package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestStopWhileTheDatabaseIsOpened: a signal ends the process while etcd opens its
// database, as it does for a minute if that is large, and the next start is as usual. Here
// etcd waits for the lock of a reader.
func TestStopWhileTheDatabaseIsOpened(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := harness.Start(t)
			s.Kubectl("", "create", "configmap", "kept", "-n", "default")
			if code := s.Stop(); code != harness.ExitOK {
				t.Fatalf("the server ended with exit code %d", code)
			}
			database, err := os.Open(filepath.Join(s.Dir, "etcd", "member", "snap", "db"))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Flock(int(database.Fd()), syscall.LOCK_SH); err != nil {
				t.Fatal(err)
			}
			again := harness.Launch(t, s.Dir)
			harness.Eventually(t, "the server opens the database", func() error {
				if _, err := os.Stat(filepath.Join(s.Dir, "etcd", "seal.json")); errors.Is(err, os.ErrNotExist) {
					return nil // it was removed before
				}
				return errors.New("it still checks the data")
			})
			again.Signal(signal)
			if code := again.Wait(); code != harness.ExitOK {
				t.Errorf("the server ended with exit code %d", code)
			}
			harness.Contains(t, again.Log(), "stopped during the start", "stopped  took=")
			if strings.Contains(again.Log(), "error") {
				t.Errorf("the log has an error:\n%s", again.Log())
			}
			if err := database.Close(); err != nil {
				t.Fatal(err)
			}
			s = harness.StartIn(t, s.Dir)
			s.Kubectl("", "get", "configmap", "kept", "-n", "default")
		})
	}
}
