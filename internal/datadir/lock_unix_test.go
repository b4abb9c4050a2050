//go:build !windows

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestLockIsNotALink: the lock is written to, and a link may lead to any file.
func TestLockIsNotALink(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, current); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("the directory is opened: %v", err)
	}
	if content, err := os.ReadFile(other); err != nil || string(content) != "content" {
		t.Errorf("the target of the link has %q (%v)", content, err)
	}
}

// TestLockWhileItIsRemoved: a lock is on the file at the path, also while other processes
// remove theirs, as a reset and an ephemeral server do.
func TestLockWhileItIsRemoved(t *testing.T) {
	const rounds = 300
	path := filepath.Join(t.TempDir(), "lock")
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range rounds {
				lock, err := TryLock(path)
				if errors.Is(err, ErrLocked) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				held, err := lock.Stat()
				if err != nil {
					t.Error(err)
				}
				if there, err := os.Stat(path); err != nil || !os.SameFile(held, there) {
					t.Errorf("the lock is not on the file at the path: %v", err)
				}
				if err := errors.Join(os.Remove(path), lock.Close()); err != nil {
					t.Error(err)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
	workers.Wait()
}
