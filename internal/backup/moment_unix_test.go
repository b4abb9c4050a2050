//go:build !windows

package backup

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKeysOfOneMoment: the files of a rotation that happens while they are read are all of
// before or all of after.
func TestKeysOfOneMoment(t *testing.T) {
	// The rotation happens while the reader is at a pipe.
	for name, at := range map[string]string{"a listed file is gone": "client-ca-a.crt", "a file was read before": "client-ca.z"} {
		t.Run(name, func(t *testing.T) {
			source := Source{DataDir: t.TempDir()}
			dir := filepath.Join(source.DataDir, "pki")
			write := func(name, content string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Error(err)
				}
			}
			pipe := filepath.Join(dir, at)
			if err := errors.Join(os.Mkdir(dir, 0o700), syscall.Mkfifo(pipe, 0o600)); err != nil {
				t.Fatal(err)
			}
			write("client-ca.key", "old")
			write("client-ca-next.key", "new")
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
				write("rotations.json", "signing")
				if err := reader.Close(); err != nil {
					t.Error(err)
				}
			}()
			entries, _, err := identityEntries(source, false)
			if err != nil {
				t.Fatal(err)
			}
			<-rotated
			got := map[string]string{}
			for _, e := range entries {
				got[e.Name] = string(e.content)
			}
			if want := map[string]string{"pki/" + at: "pipe", "pki/client-ca.key": "new", "pki/rotations.json": "signing"}; !maps.Equal(got, want) {
				t.Errorf("the backup has %v, want %v", got, want)
			}
		})
	}
}

// TestLinkedKeysOfOneMoment: keys behind links, as a kubelet makes them for a Secret, are of
// one moment, too; a link that leads nowhere is an error.
func TestLinkedKeysOfOneMoment(t *testing.T) {
	dir := t.TempDir()
	names := []string{"client-ca.key", "client-ca.pipe", "rotations.json"}
	for _, version := range []string{"..old", "..new"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			put(t, filepath.Join(dir, version, name), version)
		}
	}
	for _, name := range names {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	pipe := filepath.Join(dir, "..old", "client-ca.pipe") // the swap happens while the reader is at it
	if err := errors.Join(os.Symlink("..old", filepath.Join(dir, "..data")), os.Remove(pipe), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	swapped := make(chan error)
	go func() {
		reader, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the reader
		if err != nil {
			swapped <- err
			return
		}
		next := filepath.Join(dir, "..data_tmp")
		swapped <- errors.Join(os.Symlink("..new", next), os.Rename(next, filepath.Join(dir, "..data")), reader.Close())
	}()
	files, err := readFiles(dir)
	if err := errors.Join(err, <-swapped); err != nil {
		t.Fatal(err)
	}
	if len(files) != len(names) {
		t.Errorf("the backup has %d files", len(files))
	}
	for name, content := range files {
		if string(content) != "..new" {
			t.Errorf("%s is %q", name, content)
		}
	}
	if err := os.Remove(filepath.Join(dir, "..new", names[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := readFiles(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a link that leads nowhere: %v", err)
	}
}
