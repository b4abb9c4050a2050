//go:build !windows

package journal

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestChangedKeysOfOneMoment: a rotation that happens while changed files are read goes into
// a segment as a whole.
func TestChangedKeysOfOneMoment(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	dir := filepath.Join(dataDir, "pki")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Error(err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write("client-ca.key", "old")
	write("client-ca-next.key", "next") // of another size: the clock of files has ticks
	files, err := newIdentityFiles(dataDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	write("rotations.json", "prepared")
	rotated := make(chan struct{})
	go func() {
		defer close(rotated)
		reader, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
		if err != nil {
			t.Error(err)
			return
		}
		write("kept", "pipe")
		if err := errors.Join(
			os.Rename(filepath.Join(dir, "client-ca-next.key"), filepath.Join(dir, "client-ca.key")),
			os.Rename(filepath.Join(dir, "kept"), pipe), // the next attempt does not wait
		); err != nil {
			t.Error(err)
		}
		write("rotations.json", "signing!")
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}()
	changed, err := files.changed("pki")
	if err != nil {
		t.Fatal(err)
	}
	<-rotated
	got := map[string]string{}
	for _, file := range changed {
		got[file.Name] = string(file.Content)
		if file.Removed {
			got[file.Name] = "removed"
		}
	}
	want := map[string]string{"pki/pipe": "pipe", "pki/client-ca.key": "next", "pki/client-ca-next.key": "removed", "pki/rotations.json": "signing!"}
	if !maps.Equal(got, want) {
		t.Errorf("changed files: %v, want %v", got, want)
	}
}

// TestChangedKeysBehindLinks: a kubelet that swaps the content of a Secret changes no link
// to a file of it.
func TestChangedKeysBehindLinks(t *testing.T) {
	t.Parallel()
	dataDir := t.TempDir()
	dir := filepath.Join(dataDir, "pki")
	for version, content := range map[string]string{"..old": "old", "..new": "changed"} { // of another size: the clock of files has ticks
		path := filepath.Join(dir, version)
		if err := errors.Join(os.MkdirAll(path, 0o700), os.WriteFile(filepath.Join(path, "client-ca.key"), []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	data, next := filepath.Join(dir, "..data"), filepath.Join(dir, "..data_tmp")
	if err := errors.Join(os.Symlink("..old", data), os.Symlink("..data/client-ca.key", filepath.Join(dir, "client-ca.key"))); err != nil {
		t.Fatal(err)
	}
	files, err := newIdentityFiles(dataDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("..new", next), os.Rename(next, data)); err != nil {
		t.Fatal(err)
	}
	changed, err := files.changed("pki")
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) != 1 || changed[0].Name != "pki/client-ca.key" || string(changed[0].Content) != "changed" {
		t.Errorf("changed files: %+v", changed)
	}
	if err := os.Remove(filepath.Join(dir, "..new", "client-ca.key")); err != nil {
		t.Fatal(err)
	}
	if changed, err := files.changed("pki"); err != nil || len(changed) > 0 {
		t.Errorf("a link that leads nowhere for now: %+v, %v", changed, err)
	}
}
