//go:build !windows

package testplane

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestSweep: a directory whose process was killed is removed by the next one; those in
// use, kept ones and other users' files stay.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	made := func(keep bool) *Directory {
		t.Helper()
		d, err := MakeDirectory(keep)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	killed, used, kept := made(false), made(false), made(true)
	elsewhere := t.TempDir()
	if err := errors.Join(
		os.Mkdir(killed.Data(), 0o700), os.WriteFile(filepath.Join(killed.Data(), "version.json"), nil, 0o600),
		os.WriteFile(filepath.Join(elsewhere, ownerLock), nil, 0o600),
		os.Symlink(elsewhere, filepath.Join(os.TempDir(), directoryPrefix+"link")),
		killed.lock.Close(),
	); err != nil {
		t.Fatal(err)
	}
	next := made(false)
	got, err := filepath.Glob(filepath.Join(os.TempDir(), directoryPrefix+"*"))
	want := []string{used.Path(), kept.Path(), next.Path(), filepath.Join(os.TempDir(), directoryPrefix+"link")}
	slices.Sort(want)
	if slices.Sort(got); err != nil || !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q: %v", got, want, err)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 1 {
		t.Errorf("behind the link there are %v, %v", entries, err)
	}
	if err := errors.Join(used.Remove(t.Context()), kept.Remove(t.Context()), next.Remove(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestSweepAndOtherUsers: directories of other users stay, and files that their locks
// are links to keep their content.
func TestSweepAndOtherUsers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const content = "of this user"
	file := filepath.Join(t.TempDir(), "file")
	linked, foreign := filepath.Join(os.TempDir(), directoryPrefix+"linked"), filepath.Join(os.TempDir(), directoryPrefix+"foreign")
	if err := errors.Join(
		os.WriteFile(file, []byte(content), 0o600),
		os.Mkdir(linked, 0o700), os.Symlink(file, filepath.Join(linked, ownerLock)),
		os.Mkdir(foreign, 0o700),
	); err != nil {
		t.Fatal(err)
	}
	if os.Chown(foreign, 65534, 65534) == nil { // root may; a hard link is a file of this user in that directory
		if err := os.Link(file, filepath.Join(foreign, ownerLock)); err != nil {
			t.Fatal(err)
		}
	}
	sweep(os.TempDir())
	if data, err := os.ReadFile(file); err != nil || string(data) != content {
		t.Errorf("the file has %q, %v", data, err)
	}
	for _, path := range []string{linked, foreign} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestSweptDirectoryIsNotUsed: another process may find a new directory before it is
// locked, and remove it after it is locked.
func TestSweptDirectoryIsNotUsed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path, err := os.MkdirTemp("", directoryPrefix)
	if err == nil {
		err = os.WriteFile(filepath.Join(path, ownerLock), nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	late, err := os.OpenFile(filepath.Join(path, ownerLock), os.O_RDWR, 0) // its lock comes later
	if err != nil {
		t.Fatal(err)
	}
	sweep(os.TempDir())
	if info, err := late.Stat(); err != nil || info.Size() != sweptSize {
		t.Errorf("the file does not show that its directory was removed: %v", err)
	}
	if err := errors.Join(late.Close(), os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, ownerLock), make([]byte, sweptSize), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDirectory(path); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("a directory that is being removed is used: %v", err)
	}
}

// TestFullDirectoryIsNamed: also when the disk has room again, and not for a full disk
// with other files.
func TestFullDirectoryIsNamed(t *testing.T) {
	parent := t.TempDir()
	d := &Directory{path: filepath.Join(parent, "run")}
	for text, named := range map[string]bool{
		"write " + filepath.Join(d.path, "data", "db") + ": " + syscall.ENOSPC.Error(): true,
		"write /var/log/server: " + syscall.ENOSPC.Error():                             false,
		"another error": false,
	} {
		if err := d.explain(errors.New(text)); strings.Contains(err.Error(), "the temporary directory "+parent+" is full") != named {
			t.Errorf("the error is %q", err)
		}
	}
	if err := d.explain(nil); err != nil {
		t.Error(err)
	}
}

// TestRemoveWithAHangingEtcd: the wait for the lock of the data directory has a bound, and a
// signal that ends a run ends it. The directory is left to the guard, and no other process
// removes it before.
func TestRemoveWithAHangingEtcd(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for name, c := range map[string]struct {
		signals []os.Signal
		want    time.Duration
	}{
		"no signal":        {nil, datadir.RemovalTimeout},
		"a changed window": {[]os.Signal{syscall.SIGWINCH}, datadir.RemovalTimeout},
		"SIGTERM":          {[]os.Signal{syscall.SIGTERM}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := MakeDirectory(false)
				if err != nil {
					t.Fatal(err)
				}
				used, err := datadir.Lock(d.Data())
				if err != nil {
					t.Fatal(err)
				}
				signals := make(chan os.Signal, 1)
				for _, signal := range c.signals {
					signals <- signal
				}
				var errs bytes.Buffer
				r := &runner{RunOptions: RunOptions{ServerOptions: ServerOptions{Err: &errs}, Signals: signals}, server: &Server{dir: d}}
				began := time.Now()
				if err := r.close(t.Context()); err != nil {
					t.Error(err)
				}
				// One poll may be under way.
				if took := time.Since(began); took < c.want || took > c.want+lockPoll {
					t.Errorf("it took %s, want %s", took, c.want)
				}
				if !strings.Contains(errs.String(), "etcd still uses the temporary directory "+d.Path()) {
					t.Errorf("it says %q", errs.String())
				}
				sweep(os.TempDir())
				if err := used.Close(); err != nil {
					t.Errorf("the directory was removed: %v", err)
				}
				if err := d.Remove(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(d.Path()); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the directory is there: %v", err)
				}
			})
		})
	}
}
