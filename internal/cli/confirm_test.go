package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestSignalEndsConfirmation: the first Ctrl-C at the question of reset ends the command,
// and nothing is removed.
func TestSignalEndsConfirmation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	stamp := datadir.CurrentStamp()
	d, err := datadir.Open(dir, stamp)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.WriteStamp(stamp), d.Close()); err != nil {
		t.Fatal(err)
	}
	in, terminal := io.Pipe() // without an answer
	defer func() { _ = terminal.Close() }()
	asked, question := io.Pipe()
	defer func() { _ = question.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = asked.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, asked)
	}()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"reset", "--data-dir", dir}, Streams{In: in, Out: io.Discard, Err: question})
	}()
	select {
	case code := <-ended:
		if code != ExitUsage {
			t.Errorf("exit code %d, want %d", code, ExitUsage)
		}
	case <-time.After(time.Minute):
		t.Fatal("the command still waits for an answer")
	}
	if _, err := os.Stat(filepath.Join(dir, "version.json")); err != nil {
		t.Error(err)
	}
}

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

// TestResetOfADirectoryInUse: reset refuses it without a question.
func TestResetOfADirectoryInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	stamp := datadir.CurrentStamp()
	d, err := datadir.Open(dir, stamp)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.WriteStamp(stamp); err != nil {
		t.Fatal(err)
	}
	out, errs, code := runCLI(t, "reset", "--data-dir", dir)
	if code != ExitFailure || !strings.Contains(errs, "stop it first") || strings.Contains(errs, "Type yes") || out != "" {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := runCLI(t, "reset", "--data-dir", dir); code != ExitUsage || !strings.Contains(errs, "Type yes") {
		t.Errorf("unused: exit code %d:\n%s", code, errs)
	}
}
