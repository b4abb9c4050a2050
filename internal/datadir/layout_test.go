package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenRefusesADirectoryWithOtherFiles: neither a server nor a restore may mix its
// files with those of others.
func TestOpenRefusesADirectoryWithOtherFiles(t *testing.T) {
	for _, name := range []string{"docs/thesis.txt", "notes.md", "pki/easy-rsa", "etcd/default.etcd/x", "backups/photo.jpg"} {
		path := t.TempDir()
		fillDir(t, path, map[string]string{name: "mine"})
		_, err := Open(path, current)
		_, lockErr := Lock(path) // a restore does that
		for _, err := range []error{err, lockErr} {
			if !errors.Is(err, ErrNotDataDir) || !strings.Contains(err.Error(), strings.Split(name, "/")[0]) || !strings.Contains(err.Error(), "--data-dir") {
				t.Errorf("with %s: %v", name, err)
			}
		}
		if _, err := os.Stat(filepath.Join(path, "lock")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("with %s: something was written", name)
		}
	}
}

// TestOpenAcceptsPreparedFiles: an identity, backups, and what the
// configuration names.
func TestOpenAcceptsPreparedFiles(t *testing.T) {
	path := t.TempDir()
	fillDir(t, path, map[string]string{
		"pki/server-ca.crt": "", "pki/server-ca.key": "", "pki/revoked-keys": "", "encryption/config.yaml": "", "encryption/..data/config.yaml": "",
		"backups/manual-20260102T030405Z.tar.gz": "", "lost+found/x": "", "etcd/lost+found/x": "", "config.yaml": "", "manifests/a.yaml": "",
	})
	d, err := Open(path, current, filepath.Join(path, "config.yaml"), filepath.Join(path, "manifests"), "/elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.BeginFirstStart(current), d.WriteStamp(current), d.Close()); err != nil {
		t.Fatal(err)
	}
	fillDir(t, path, map[string]string{"later.txt": ""})
	if d, err = Open(path, current); err != nil {
		t.Fatalf("a directory that is used: %v", err)
	}
	shut(t, d)
}

// TestFirstStart: until it has finished the directory is a new one, and one
// that was interrupted.
func TestFirstStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	open := func(interrupted, used bool) *Dir {
		t.Helper()
		d := opened(t, path)
		if d.Interrupted != interrupted || (d.Previous != nil) != used {
			t.Errorf("interrupted %v, stamp %v; want %v, %v", d.Interrupted, d.Previous, interrupted, used)
		}
		return d
	}
	shut(t, open(false, false)) // a port that was taken
	d := open(false, false)
	if err := d.BeginFirstStart(current); err != nil {
		t.Fatal(err)
	}
	shut(t, d)
	d = open(true, false)
	if err := errors.Join(d.BeginFirstStart(current), d.WriteStamp(current)); err != nil {
		t.Fatal(err)
	}
	shut(t, d)
	d = open(false, true)
	if d.Previous == nil || *d.Previous != current {
		t.Errorf("the stamp is %+v", d.Previous)
	}
	shut(t, d)
}

// TestWriteStamp: the stamp of a used directory is that of the release that has taken it over.
func TestWriteStamp(t *testing.T) {
	path := t.TempDir()
	older := current
	older.Version = "v0.0.1"
	for _, stamp := range []Stamp{older, current} {
		d, err := Open(path, stamp)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.WriteStamp(stamp), d.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadStamp(path); err != nil || *got != stamp {
			t.Errorf("the stamp is %v, %v; want %v", got, err, stamp)
		}
	}
}

// TestPreparedStoreIsNotMarked: what the user has put there must not be taken
// for the rest of an interrupted start.
func TestPreparedStoreIsNotMarked(t *testing.T) {
	path := t.TempDir()
	fillDir(t, path, map[string]string{"etcd/member/snap/db": "precious"})
	d := opened(t, path)
	if err := errors.Join(d.BeginFirstStart(current), d.Close()); err != nil {
		t.Fatal(err)
	}
	if d = opened(t, path); d.Interrupted {
		t.Error("it is one that was interrupted")
	}
	shut(t, d)
}
