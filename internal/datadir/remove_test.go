package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ours makes a directory as a server leaves it.
func ours(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	stamp := Stamp{Format: Format, Version: "v1"}
	d, err := Open(path, stamp)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.WriteStamp(stamp), WriteFile(d.Join("pki", "ca.key"), []byte("key"), 0o600), d.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func confirmed(*Removal) error { return nil }

// TestRemoveKeepsOtherFiles: files of others, wherever they lie, and
// the backups unless they are requested.
func TestRemoveKeepsOtherFiles(t *testing.T) {
	keptAlways := []string{"docs/thesis.txt", "notes.md", "pki/README.txt", "backups/list.txt", "before-restore-1/mine.txt"}
	backups := []string{"backups/scheduled-20260102T030405Z.tar.gz", "backups/.unfinished-1", "before-restore-1/backups/old.tar.gz"}
	removed := []string{"admin.kubeconfig", "pki/ca.crt", "encryption/config.yaml", "etcd/member/snap/db", "etcd/seal.json", "snapshot.tmp/snapshot-1.db",
		"before-restore-1/etcd/member/snap/db", "restored-config/files/a", ".version.json.tmp-1"}
	for _, withBackups := range []bool{false, true} {
		path := ours(t)
		for _, name := range slices.Concat(keptAlways, backups, removed) {
			if err := WriteFile(filepath.Join(path, name), []byte("content"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var plan *Removal
		refused := errors.New("not confirmed")
		if _, err := Remove(path, withBackups, func(p *Removal) error { plan = p; return refused }); !errors.Is(err, refused) {
			t.Fatalf("a removal that is not confirmed: %v", err)
		}
		done, err := Remove(path, withBackups, confirmed)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(plan.Removed, done.Removed) || !slices.Equal(plan.Others, done.Others) || !slices.Equal(plan.Backups, done.Backups) {
			t.Errorf("planned %v, done %v", plan, done)
		}
		kept, gone := slices.Clone(keptAlways), slices.Clone(removed)
		if withBackups {
			gone = append(gone, backups...)
		} else {
			kept = append(kept, backups...)
		}
		got := content(t, path)
		for _, name := range kept {
			if got[name] != "content" {
				t.Errorf("with backups %v: %s is gone", withBackups, name)
			}
		}
		for _, name := range append(gone, "version.json", "lock", "pki/ca.key") {
			if _, there := got[name]; there {
				t.Errorf("with backups %v: %s is still there", withBackups, name)
			}
		}
		if want := []string{"backups/list.txt", "before-restore-1/mine.txt", "docs/", "notes.md", "pki/README.txt"}; !slices.Equal(slices.Sorted(slices.Values(plan.Others)), want) {
			t.Errorf("with backups %v: %v is said to stay", withBackups, plan.Others)
		}
	}
}

// TestRemoveBehindLinks: the content of a directory that is a link goes, as that of one that is none;
// backups and files of others stay.
func TestRemoveBehindLinks(t *testing.T) {
	path, elsewhere := ours(t), t.TempDir()
	fillDir(t, elsewhere, map[string]string{"etcd/member/snap/db": "objects", "planes/acme/pki/ca.key": "key", "backups/manual-20260102T030405Z.tar.gz": "backup",
		"journal/segment": "changes", "encryption/config.yaml": "key", "encryption/mine.txt": "mine"})
	for _, name := range []string{"etcd", "planes", "backups", "encryption", "missing"} {
		link := name
		if name == "missing" {
			link = "journal"
		}
		if err := os.Symlink(filepath.Join(elsewhere, name), filepath.Join(path, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, withBackups := range []bool{false, true} {
		if err := errors.Join(WriteStampFile(path, current), os.WriteFile(filepath.Join(path, "lock"), nil, 0o600)); err != nil { // the second time they are gone
			t.Fatal(err)
		}
		if _, err := Remove(path, withBackups, confirmed); err != nil {
			t.Fatal(err)
		}
		left := content(t, elsewhere)
		for name, kept := range map[string]bool{"etcd/member/snap/db": false, "planes/acme/pki/ca.key": false, "encryption/config.yaml": false,
			"encryption/mine.txt": true, "journal/segment": true, "backups/manual-20260102T030405Z.tar.gz": !withBackups} {
			if _, there := left[name]; there != kept {
				t.Errorf("with backups %v: %s is there: %v", withBackups, name, there)
			}
		}
		for name, kept := range map[string]bool{"etcd": false, "journal": false, "encryption": true, "backups": !withBackups} {
			if _, err := os.Lstat(filepath.Join(path, name)); (err == nil) != kept {
				t.Errorf("with backups %v: the link %s: %v", withBackups, name, err)
			}
		}
	}
}

// TestRemoveAfterAnInterruptedFirstStart: there is no stamp, or an unfinished
// one, and nothing that others have made.
func TestRemoveAfterAnInterruptedFirstStart(t *testing.T) {
	for _, marked := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "data")
		d := opened(t, path)
		var err error
		if marked {
			err = d.BeginFirstStart(current)
		}
		if err := errors.Join(err, WriteFile(d.Join("pki", "ca.key"), nil, 0o600), d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := RequireUsed(path); err == nil || !strings.Contains(err.Error(), "did not finish") {
			t.Errorf("using it: %v", err)
		}
		if _, err := Remove(path, false, confirmed); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory is still there: %v", err)
		}
	}
}

func TestRemoveRefusesADirectoryInUse(t *testing.T) {
	path := ours(t)
	d, err := Open(path, Stamp{Format: Format})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(path, false, confirmed); !errors.Is(err, ErrLocked) {
		t.Errorf("removing a directory in use says %v", err)
	}
	if _, err := os.Stat(d.Join("pki", "ca.key")); err != nil {
		t.Errorf("something was removed: %v", err)
	}
	shut(t, d)
}

func TestRemoveRefusesOtherDirectories(t *testing.T) {
	file := func(name, content string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600) }
	}
	for name, change := range map[string]func(dir string) error{
		"no lock": func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
		"no stamp": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "version.json")), file("thesis.txt", "mine")(dir))
		},
		"stamp of another program": file("version.json", `{"version": "1.2.3"}`),
		"damaged stamp":            file("version.json", "{"),
		"lock is a link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "lock")), os.Symlink("version.json", filepath.Join(dir, "lock")))
		},
		"lock is a place": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "lock")), os.Mkdir(filepath.Join(dir, "lock"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := ours(t)
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			if _, err := Remove(path, false, confirmed); !errors.Is(err, ErrNotDataDir) {
				t.Errorf("removing it says %v", err)
			}
			if _, err := os.Stat(filepath.Join(path, "pki", "ca.key")); err != nil {
				t.Errorf("something was removed: %v", err)
			}
		})
	}
}
