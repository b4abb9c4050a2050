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

// mounted makes path a file system of its own, which only the calling test sees. It skips the
// test where that is not permitted.
func mounted(t *testing.T, path string) {
	t.Helper()
	runtime.LockOSThread() // the thread ends with the test
	if err := syscall.Unshare(syscall.CLONE_NEWNS); errors.Is(err, syscall.EPERM) {
		t.Skipf("mounts are not permitted here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), os.MkdirAll(path, 0o700),
		syscall.Mount("tmpfs", path, "tmpfs", 0, "mode=0700")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
}

// TestRemoveWithAMountInside: what is mounted is emptied, and everything else goes.
func TestRemoveWithAMountInside(t *testing.T) {
	path := ours(t)
	mounted(t, filepath.Join(path, "etcd"))
	fillDir(t, path, map[string]string{"etcd/member/snap/db": "objects"})
	if _, err := Remove(path, false, confirmed); err != nil {
		t.Fatal(err)
	}
	if left := content(t, path); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// TestReadOnlyFileSystem: the server cannot start on it.
func TestReadOnlyFileSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	mounted(t, path)
	if err := errors.Join(opened(t, path).Close(), CheckAccess(path), syscall.Mount("", path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	if err := CheckAccess(path); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("it says %v", err)
	}
}
