//go:build !windows

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestKeepOwner: what root makes in a directory of another user is that user's
// when the directory is given back; other files stay root's.
func TestKeepOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others; TestRootCommandsKeepTheOwner in e2e needs root too")
	}
	path := t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := errors.Join(os.WriteFile(elsewhere, nil, 0o600), os.Chown(path, 1234, 1235)); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path, current)
	if err != nil {
		t.Fatal(err)
	}
	fillDir(t, path, map[string]string{"pki/ca.key": "", "etcd/member/snap/db": "", "backups/one.tar.gz": "", "notes.txt": ""})
	if err := errors.Join(d.WriteStamp(current), os.Symlink(elsewhere, d.Join("pki", "out.key")), os.Link(elsewhere, d.Join("pki", "hard.key")), d.Close()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"lock": 1234, "version.json": 1234, "pki": 1234, "pki/ca.key": 1234, "etcd/member/snap/db": 1234, "backups/one.tar.gz": 1234, "notes.txt": 0, "pki/hard.key": 0} {
		if uid, _, err := owner(filepath.Join(path, name)); err != nil || uid != want {
			t.Errorf("%s is of user %d, %v; want %d", name, uid, err, want)
		}
	}
	if uid, _, err := owner(elsewhere); err != nil || uid != 0 {
		t.Errorf("a file elsewhere is of user %d now, %v", uid, err)
	}
}
