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
	first, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	id := first.LockID()
	if id == "" {
		t.Fatal("the lock has no ID")
	}
	place := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(place, os.DirFS(path)); err != nil {
		t.Fatal(err)
	}
	other, err := Lock(place)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.LockID() == id {
		t.Error("a copy has the ID of the directory")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := again.LockID(); got != id {
		t.Errorf("the ID is %q, and was %q", got, id)
	}
}
