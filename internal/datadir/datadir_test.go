package datadir

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var current = Stamp{Format: Format, Version: "v1.0.0", Kubernetes: "v1.36.3", Etcd: "3.6.16"}

func opened(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path, current)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func shut(t *testing.T, d *Dir) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOneWriterAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	first := opened(t, path)
	if _, err := Open(path, current); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "of this process") {
		t.Errorf("the second Open said: %v", err)
	}
	shut(t, first)
	other, err := TryLock(filepath.Join(path, "lock")) // as another process has it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, current); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("while another process has the lock, Open said: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	again := opened(t, path)
	shut(t, again)
	if info, err := os.Stat(path); err != nil || !HasMode(info, 0o700) {
		t.Errorf("the directory is %v, %v", info.Mode(), err)
	}
}

// TestUse: the lock is held until Close and all uses have ended.
func TestUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	d := opened(t, path)
	first, second := d.Use(), d.Use()
	first()
	first() // does nothing
	shut(t, d)
	if _, err := Open(path, current); !errors.Is(err, ErrLocked) {
		t.Errorf("during a use, Open said: %v", err)
	}
	second()
	again := opened(t, path)
	again.Use()()
	if _, err := Open(path, current); !errors.Is(err, ErrLocked) {
		t.Errorf("before Close, Open said: %v", err)
	}
	shut(t, again)
}

func TestOpenRefuses(t *testing.T) {
	for name, test := range map[string]struct{ stamp, want string }{
		"a newer format":              {`{"format": 99, "version": "v9.0.0"}`, "written by kube-hyper-mini v9.0.0 (format 99)"},
		"garbage":                     {"\x00garbage", "is not readable (\"\\x00garbage\"): remove it"},
		"no format":                   {`{}`, "is not readable"},
		"a newer minor of Kubernetes": {`{"format": 1, "version": "v1.1.0", "kubernetes": "v1.37.0", "etcd": "3.6.16"}`, "backup restore"},
		"a newer minor of etcd":       {`{"format": 1, "version": "v1.1.0", "kubernetes": "v1.36.3", "etcd": "3.7.0"}`, "backup restore"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			if err := os.WriteFile(filepath.Join(path, "version.json"), []byte(test.stamp), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, current)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "--data-dir") {
				t.Errorf("it said: %v", err)
			}
			data, err := os.ReadFile(filepath.Join(path, "version.json"))
			if err != nil || string(data) != test.stamp {
				t.Errorf("the stamp was changed to %q, %v", data, err)
			}
			// Nothing holds the directory after a refusal.
			if err := os.Remove(filepath.Join(path, "version.json")); err != nil {
				t.Fatal(err)
			}
			d := opened(t, path)
			shut(t, d)
		})
	}
}

func TestWriteFileReplacesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "file")
	for _, content := range []string{"first, longer than the second", "second"} {
		if err := WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || !HasMode(info, 0o640) {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if left := names(t, filepath.Dir(path)); left != "file" {
		t.Errorf("the directory holds %s", left)
	}
}

func TestFailedWriteFileLeavesNoFiles(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.MkdirAll(filepath.Join(target, "not-empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(target, []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), target) {
		t.Errorf("it said: %v", err)
	}
	if left := names(t, dir); left != "target" {
		t.Errorf("the directory holds %s", left)
	}
}

// TestSkippedMinors: an upgrade goes through each minor release.
func TestSkippedMinors(t *testing.T) {
	for _, test := range []struct {
		kubernetes, etcd string
		want             string
	}{
		{"v1.36.0", "3.6.1", ""},
		{"v1.35.9", "3.6.1", ""},
		{"v1.35.9", "3.5.21", ""},
		{"v1.34.9", "3.6.1", "skips a minor release of Kubernetes (from v1.34.9 to v1.36.3)"},
		{"v1.36.0", "3.4.30", "skips a minor release of etcd"},
		{"v0.0.0-unknown", "", ""},
		{"", "", ""},
	} {
		path := filepath.Join(t.TempDir(), "data")
		d := opened(t, path)
		if err := errors.Join(d.WriteStamp(Stamp{Format: Format, Version: "v0.1.0", Kubernetes: test.kubernetes, Etcd: test.etcd}), d.Close()); err != nil {
			t.Fatal(err)
		}
		d, err := Open(path, current)
		if err == nil {
			err = d.Close()
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "v0.1.0")) {
			t.Errorf("from %s and %s: %v", test.kubernetes, test.etcd, err)
		}
	}
}

// TestRenameNew: a name that is taken stays what it is, on file systems with links.
func TestRenameNew(t *testing.T) {
	dir := t.TempDir()
	fillDir(t, dir, map[string]string{"one": "1", "two": "2"})
	one, two, free := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "free")
	if err := RenameNew(one, two); !errors.Is(err, os.ErrExist) {
		t.Errorf("a name that is taken: %v", err)
	}
	if err := RenameNew(one, free); err != nil {
		t.Error(err)
	}
	if got, want := content(t, dir), map[string]string{"two": "2", "free": "1"}; !maps.Equal(got, want) {
		t.Errorf("the directory has %v, want %v", got, want)
	}
}
