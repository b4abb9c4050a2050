//go:build !windows

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// TestForeignFiles: files that the owner of the directory may not use are found; those
// that others may use, and files that are not of the layout, are not.
func TestForeignFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others")
	}
	path := t.TempDir()
	fillDir(t, path, map[string]string{"pki/ca.key": "", "pki/ca.crt": "", "etcd/member/snap/db": "", "notes.txt": ""})
	readable := func(name string) error {
		return errors.Join(os.Chown(filepath.Join(path, name), 0, 0), os.Chmod(filepath.Join(path, name), 0o644))
	}
	for _, name := range []string{".", "pki", "etcd", "etcd/member", "etcd/member/snap"} {
		if err := os.Chown(filepath.Join(path, name), 1234, 1235); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(path, "pki", "ca.key"), 0o600), readable("pki/ca.crt"), readable("etcd/member/snap/db")); err != nil {
		t.Fatal(err)
	}
	owns, files, err := ForeignFiles(path)
	if want := []string{"etcd/member/snap/db", "pki/ca.key"}; err != nil || owns != "1234:1235" || !slices.Equal(files, want) {
		t.Errorf("%s, %q, %v; want %q", owns, files, err, want)
	}
}
