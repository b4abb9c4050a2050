//go:build !windows

package kubeconfig

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestMergeKeepsModeAndOwner: root may merge into the file of a user, who must be able to
// read it afterwards.
func TestMergeKeepsModeAndOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	if err := errors.Join(os.WriteFile(path, []byte("apiVersion: v1\nkind: Config\n"), 0o600), os.Chmod(path, 0o640)); err != nil {
		t.Fatal(err)
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	if uid == 0 {
		uid, gid = 1234, 1235
		if err := os.Chown(path, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := Merge(t.Context(), rendered(t, "https://127.0.0.1:6443"), path, "mini", false, time.Now())
	if err != nil || merged.Backup == "" {
		t.Fatalf("merged: %+v, %v", merged, err)
	}
	for file, mode := range map[string]os.FileMode{path: 0o640, merged.Backup: 0o600} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != uid || stat.Gid != gid || info.Mode().Perm() != mode {
			t.Errorf("%s is of %d:%d with the mode %o, want %d:%d and %o", file, stat.Uid, stat.Gid, info.Mode().Perm(), uid, gid, mode)
		}
	}
}
