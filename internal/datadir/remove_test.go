package datadir

import (
	"errors"
	"os"
	"path/filepath"
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

func TestRemoveTakesTheWholeDirectory(t *testing.T) {
	path := ours(t)
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the directory is still there: %v", err)
	}
	if err := Remove(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("removing what is gone says %v", err)
	}
}

func TestRemoveRefusesADirectoryInUse(t *testing.T) {
	path := ours(t)
	d, err := Open(path, Stamp{Format: Format})
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(path); !errors.Is(err, ErrLocked) {
		t.Errorf("removing a directory in use says %v", err)
	}
	if _, err := os.Stat(d.Join("pki", "ca.key")); err != nil {
		t.Errorf("something was removed: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRemoveRefusesWhatIsNotOurs(t *testing.T) {
	file := func(name, content string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600) }
	}
	for name, change := range map[string]func(dir string) error{
		"no lock":       func(dir string) error { return os.Remove(filepath.Join(dir, "lock")) },
		"no stamp":      func(dir string) error { return os.Remove(filepath.Join(dir, "version.json")) },
		"foreign stamp": file("version.json", `{"version": "1.2.3"}`),
		"damaged stamp": file("version.json", "{"),
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
			if err := Remove(path); !errors.Is(err, ErrNotOurs) {
				t.Errorf("removing it says %v", err)
			}
			if _, err := os.Stat(filepath.Join(path, "pki", "ca.key")); err != nil {
				t.Errorf("something was removed: %v", err)
			}
		})
	}
}
