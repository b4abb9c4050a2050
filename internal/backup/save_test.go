package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// fullWriter is a file on a full disk.
type fullWriter struct{}

// Write implements io.Writer.
func (fullWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFullDestination: the backup of a full disk is not called damaged.
func TestFullDestination(t *testing.T) {
	_, err := Copy(t.Context(), fullWriter{}, Encryption{}, produce(server(t), Options{Reason: ReasonManual}))
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrDamaged) {
		t.Errorf("it says %v", err)
	}
}

// TestSaveReplacesNothing: a file that another process makes while a backup is written stays.
func TestSaveReplacesNothing(t *testing.T) {
	dir, source := t.TempDir(), server(t)
	path := filepath.Join(dir, "one.tar.gz")
	_, err := Save(t.Context(), path, Encryption{}, func(ctx context.Context, w io.Writer) error {
		return errors.Join(os.WriteFile(path, []byte("another's"), 0o600), produce(source, Options{})(ctx, w))
	})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("it says %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "another's" {
		t.Errorf("the file has %d bytes, %v", len(content), err)
	}
	if found := names(t, dir); len(found) != 1 {
		t.Errorf("the directory has %v", found)
	}
}
