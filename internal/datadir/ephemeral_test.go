package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fillEphemeral opens the directory and writes what a server writes.
func fillEphemeral(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := OpenEphemeral(path, Stamp{Format: Format})
	if err == nil {
		err = errors.Join(d.BeginFirstStart(Stamp{Format: Format}), WriteFile(d.Join("pki", "admin.key"), nil, 0o600), WriteFile(d.Join("etcd", "member", "db"), nil, 0o600), d.WriteStamp(Stamp{Format: Format}))
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func names(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return strings.Join(list, " ")
}

// TestEphemeralLeavesNothing: the directory is removed if it was made, and empty again
// if it was there, apart from files of others.
func TestEphemeralLeavesNothing(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made")
	if err := fillEphemeral(t, made).Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has %s, %v", names(t, made), err)
	}
	volume := t.TempDir()
	if err := os.Mkdir(filepath.Join(volume, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := fillEphemeral(t, volume).Close(); err != nil {
		t.Error(err)
	}
	if left := names(t, volume); left != "lost+found" {
		t.Errorf("it has %s", left)
	}
}

// TestEphemeralWaitsForUses: what is in use is not removed.
func TestEphemeralWaitsForUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "made")
		d := fillEphemeral(t, path)
		release := d.Use()
		closed := make(chan error, 1)
		go func() { closed <- d.Close() }()
		synctest.Wait()
		if left := names(t, path); !strings.Contains(left, "etcd") || len(closed) > 0 {
			t.Errorf("it has %s", left)
		}
		release()
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it has %s, %v", names(t, path), err)
		}
	})
}

// TestEphemeralWithAHangingUse: Close does not wait for ever, and removes the files.
func TestEphemeralWithAHangingUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "made")
		d := fillEphemeral(t, path)
		release := d.Use()
		began := time.Now()
		shut(t, d)
		if took := time.Since(began); took != RemovalTimeout { // of the fake clock
			t.Errorf("it took %s, want %s", took, RemovalTimeout)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it has %s, %v", names(t, path), err)
		}
		release()
	})
}

// TestEphemeralRefusesData: what is in a directory stays.
func TestEphemeralRefusesData(t *testing.T) {
	path := t.TempDir()
	d, err := Open(path, Stamp{Format: Format})
	if err == nil {
		err = errors.Join(d.WriteStamp(Stamp{Format: Format}), WriteFile(d.Join("etcd", "member", "db"), nil, 0o600), d.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenEphemeral(path, Stamp{Format: Format}); err == nil || !strings.Contains(err.Error(), "has data (etcd/, lock, version.json), which --ephemeral would remove") {
		t.Errorf("a used directory: %v", err)
	}
	if left := names(t, path); left != "etcd lock version.json" {
		t.Errorf("it has %s", left)
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenEphemeral(home, Stamp{Format: Format}); !errors.Is(err, ErrNotDataDir) {
		t.Errorf("another directory: %v", err)
	}
	if left := names(t, home); left != "letter.txt" {
		t.Errorf("it has %s", left)
	}
}
