package datadir

import (
	"path/filepath"
	"testing"
)

func TestMountPoint(t *testing.T) {
	dir := t.TempDir()
	fillDir(t, dir, map[string]string{"etcd/db": ""})
	for path, want := range map[string]bool{"/proc": true, filepath.Join(dir, "etcd"): false} {
		if mounted, err := isMountPoint(path); err != nil || mounted != want {
			t.Errorf("%s: %v, %v", path, mounted, err)
		}
	}
	if _, err := isMountPoint(filepath.Join(dir, "missing")); err == nil {
		t.Error("an entry that is missing is no error")
	}
}
