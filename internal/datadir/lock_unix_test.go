//go:build !windows

package datadir

import (
	"os"
	"path/filepath"
	"strings"
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
