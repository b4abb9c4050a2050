package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestDirectoryOfAnotherUser: a directory that this user may not read may be a data
// directory.
func TestDirectoryOfAnotherUser(t *testing.T) {
	path := ours(t)
	above := filepath.Dir(filepath.Dir(path)) // made for this user only
	if err := errors.Join(os.Chmod(above, 0o755), os.Chmod(path, 0)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(path, 0o700)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Geteuid() == 0 { // root may read everything; this thread gives that up
		if err := syscall.Setfsuid(1234); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setfsuid(0)
	}
	err := Removable(path)
	if !errors.Is(err, os.ErrPermission) || errors.Is(err, ErrNotDataDir) || !strings.Contains(err.Error(), "as the user that runs the server") {
		t.Errorf("it says %v", err)
	}
}
