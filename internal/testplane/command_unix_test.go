//go:build !windows

package testplane

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/temporary"
)

// TestCommandNeedsTheGuard: a command whose process group the guard does not get is ended. If
// this process were killed then, no process would end it.
func TestCommandNeedsTheGuard(t *testing.T) {
	read, write, err := os.Pipe()
	if err == nil {
		err = read.Close() // the guard was killed
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = write.Close() })
	r := &runner{
		RunOptions: RunOptions{Config: config.Default(), Err: io.Discard, Command: []string{"sleep", "1000"}, Grace: time.Minute},
		dir:        &Directory{Directory: temporary.Directory(t.TempDir()), guard: &Guard{pipe: write}},
	}
	if r.path, err = FindCommand("sleep"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.use(t.Context()); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("it returned %v, want that the guard is gone", err)
	}
}
