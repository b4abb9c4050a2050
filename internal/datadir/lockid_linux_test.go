package datadir

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLockID: a process that locks the directory after another one has its ID, and a
// process that locks a copy of the directory has not.
func TestLockID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first := locked(t, path)
	id := first.LockID()
	if id == "" {
		t.Fatal("the lock has no ID")
	}
	place := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(place, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	other := locked(t, place)
	if other.LockID() == id {
		t.Error("a copy has the ID of the directory")
	}
	shut(t, first)
	again := locked(t, path)
	if got := again.LockID(); got != id {
		t.Errorf("the ID is %q, and was %q", got, id)
	}
}
