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
				t.Errorf("the archive has %v, want %v", got, want)
			}
		})
	}
}
