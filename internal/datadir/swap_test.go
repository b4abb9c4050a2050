package datadir

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// content maps the files below dir to what is in them, without the lock.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "lock" {
			return err
		}
		data, err := os.ReadFile(path)
		name, relErr := filepath.Rel(dir, path)
		found[filepath.ToSlash(name)] = string(data)
		return errors.Join(err, relErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func fillDir(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		if err := WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	beforeSwap = map[string]string{"version.json": `{"format": 1}`, "etcd/db": "old", "backups/one": "kept", "in/etcd/db": "new", "in/pki/ca": "new"}
	afterSwap  = map[string]string{"out/version.json": `{"format": 1}`, "out/etcd/db": "old", "backups/one": "kept", "etcd/db": "new", "pki/ca": "new"}
)

func TestSwap(t *testing.T) {
	path := t.TempDir()
	fillDir(t, path, beforeSwap)
	d := locked(t, path)
	if err := d.Swap("in", "backups"); err == nil {
		t.Error("what exists was taken for the old content's place")
	}
	if err := d.Swap("in", "out", "backups"); err != nil {
		t.Fatal(err)
	}
	if got := content(t, path); !maps.Equal(got, afterSwap) {
		t.Errorf("the content is %v", got)
	}
}

// TestSwapIsFinished: the next start completes a swap that a crash interrupted
// at any step.
func TestSwapIsFinished(t *testing.T) {
	const journal = `{"new": "in", "old": "out", "keep": ["backups"], "moved": `
	for name, files := range map[string]map[string]string{
		"nothing moved":     {"swap.json": journal + "false}", "version.json": `{"format": 1}`, "etcd/db": "old", "backups/one": "kept", "in/etcd/db": "new", "in/pki/ca": "new"},
		"some moved away":   {"swap.json": journal + "false}", "out/version.json": `{"format": 1}`, "etcd/db": "old", "backups/one": "kept", "in/etcd/db": "new", "in/pki/ca": "new"},
		"all moved away":    {"swap.json": journal + "true}", "out/version.json": `{"format": 1}`, "out/etcd/db": "old", "backups/one": "kept", "in/etcd/db": "new", "in/pki/ca": "new"},
		"some moved in":     {"swap.json": journal + "true}", "out/version.json": `{"format": 1}`, "out/etcd/db": "old", "backups/one": "kept", "etcd/db": "new", "in/pki/ca": "new"},
		"all but forgotten": {"swap.json": journal + "true}", "out/version.json": `{"format": 1}`, "out/etcd/db": "old", "backups/one": "kept", "etcd/db": "new", "pki/ca": "new"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			fillDir(t, path, files)
			locked(t, path)
			if got := content(t, path); !maps.Equal(got, afterSwap) {
				t.Errorf("the content is %v", got)
			}
		})
	}
}

// TestSwapThatCannotBeRead: an unreadable journal fails the start.
func TestSwapThatCannotBeRead(t *testing.T) {
	for name, journal := range map[string]string{"garbage": "{", "a way out": `{"new": "../../elsewhere", "old": "out"}`} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			fillDir(t, path, map[string]string{"swap.json": journal, "etcd/db": "old"})
			if _, err := Open(path, current); err == nil {
				t.Fatal("the directory was opened")
			}
			if got := content(t, path); got["etcd/db"] != "old" {
				t.Errorf("the content is %v", got)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if err := CheckRoom(dir, 1<<60, dir); !errors.Is(err, ErrNoSpace) {
		t.Errorf("an exabyte: %v", err)
	}
	if err := CheckRoom(filepath.Join(dir, "missing"), 1, dir); err == nil || errors.Is(err, ErrNoSpace) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}

// locked has the lock until the end of the test.
func locked(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}
