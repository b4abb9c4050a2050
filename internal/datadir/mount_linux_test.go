package datadir

import (
	"path/filepath"
	"testing"
)

// TestMountPoint finds those that every Linux has, with both ways to find them.
func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	fillDir(t, dir, map[string]string{"etcd/db": ""})
	for _, find := range []func(dir, entry string) (bool, error){isMountPoint, onOtherDevice} {
		for entry, want := range map[string]bool{"/proc": true, filepath.Join(dir, "etcd"): false} {
			if mounted, err := find(filepath.Dir(entry), entry); err != nil || mounted != want {
				t.Errorf("%s: %v, %v", entry, mounted, err)
			}
		}
		if _, err := find(dir, filepath.Join(dir, "missing")); err == nil {
			t.Error("an entry that is missing is no error")
		}
	}
}
