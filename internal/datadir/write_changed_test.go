package datadir

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWriteChangedKeepsAnEqualFile: only another content or mode is written.
func TestWriteChangedKeepsAnEqualFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if err := WriteChanged(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	if err := WriteChanged(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(past) {
		t.Errorf("an equal file was written again: %v, %v", info.ModTime(), err)
	}
	if err := WriteChanged(path, []byte("a"), 0o640); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || !HasMode(info, 0o640) {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
}
