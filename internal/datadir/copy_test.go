package datadir

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	from, to, again := filepath.Join(dir, "from"), filepath.Join(dir, "to"), filepath.Join(dir, "again")
	content := bytes.Repeat([]byte("content "), copyPiece/8+1) // more than a piece
	if err := os.WriteFile(from, content, 0o644); err != nil {
		t.Fatal(err)
	}
	size, err := CopyFile(t.Context(), from, to, 0o600)
	if err != nil || size != int64(len(content)) {
		t.Errorf("%d bytes are copied: %v", size, err)
	}
	if copied, err := os.ReadFile(to); err != nil || !bytes.Equal(copied, content) {
		t.Errorf("the copy has %d bytes: %v", len(copied), err)
	}
	if info, err := os.Stat(to); err != nil || !HasMode(info, 0o600) {
		t.Errorf("the copy is %v, %v", info.Mode(), err)
	}
	hollow := filepath.Join(dir, "hollow")
	file, err := os.Create(hollow)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte("middle"), 8<<20)
	if err := errors.Join(err, file.Truncate(copyPiece+7), file.Close()); err != nil {
		t.Fatal(err)
	}
	size, err = CopyFile(t.Context(), hollow, filepath.Join(dir, "tree"), 0o600)
	before, _ := os.ReadFile(hollow)
	if copied, err2 := os.ReadFile(filepath.Join(dir, "tree")); errors.Join(err, err2) != nil || size != copyPiece+7 || !bytes.Equal(copied, before) {
		t.Errorf("%d bytes of a file with holes are copied: %v, %v", size, err, err2)
	}
	if info, err := os.Stat(filepath.Join(dir, "tree")); err != nil || runtime.GOOS == "linux" && allocated(info) > 4<<20 {
		t.Errorf("the copy of a file with holes takes %d bytes, %v", allocated(info), err)
	}
	if _, err := CopyFile(t.Context(), from, to, 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("over another file: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := CopyFile(ended, from, again, 0o600); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
