package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestStopOfARunWhileTheDatabaseIsOpened: the run ends although etcd does not, at further
// signals at once, and its guard removes the directory.
func TestStopOfARunWhileTheDatabaseIsOpened(t *testing.T) {
	r := newRunTest(t)
	_, stderr, code := r.run("--keep", "--", "true")
	kept, _, found := strings.Cut(strings.TrimPrefix(stderr, "kept "), ":")
	if code != 0 || !found {
		t.Fatalf("%d: %s", code, stderr)
	}
	from := filepath.Join(r.scratch, "kept")
	if err := os.Rename(kept, from); err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	var errs bytes.Buffer
	harness.Eventually(t, "the test locks the database before etcd does", func() error {
		cmd, errs = r.command("--from", from, "--", "echo", "never"), bytes.Buffer{}
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		database, err := r.lockDatabase(cmd)
		if err == nil {
			t.Cleanup(func() { _ = database.Close() })
		}
		return err
	})
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // of a test that has failed
	harness.Eventually(t, "the server opens the database", func() error {
		files, err := filepath.Glob(filepath.Join(r.tmp, "*", "data", "lock"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("the server has not locked its directory: %q, %w", files, err)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(files[0]), "etcd", "seal.json")); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it still checks the data: %w", err)
		}
		return nil
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Error(err)
		}
	}
	select {
	case <-ended:
	case <-time.After(harness.Patience):
		t.Fatal("it waits for etcd")
	}
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) && code != 128+int(syscall.SIGTERM) {
		t.Errorf("it ended with %d", code)
	}
	harness.Contains(t, errs.String(), "etcd still uses the temporary directory "+r.tmp, "during the start; everything is removed")
	harness.Eventually(t, "nothing is left", r.left)
}

// lockDatabase locks the database of a run as a reader does, as soon as it is there. It
// returns an error, and ends the run, if etcd has locked it before.
func (r *runTest) lockDatabase(cmd *exec.Cmd) (*os.File, error) {
	r.t.Helper()
	var database *os.File
	harness.Eventually(r.t, "the run has a database", func() error {
		files, err := filepath.Glob(filepath.Join(r.tmp, "*", "data", "etcd", "member", "snap", "db"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("the databases are %q, %w", files, err)
		}
		database, err = os.Open(files[0])
		return err
	})
	err := syscall.Flock(int(database.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if err == nil {
		return database, nil
	}
	_, _ = database.Close(), cmd.Process.Kill()
	_ = cmd.Wait()
	harness.Eventually(r.t, "nothing of the run is left", r.left)
	return nil, err
}
