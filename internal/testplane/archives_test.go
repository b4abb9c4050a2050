package testplane

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDamagedCopyIsReplaced: also when an earlier process was killed while it removed one.
func TestDamagedCopyIsReplaced(t *testing.T) {
	data, cache := t.TempDir(), t.TempDir()
	kept := filepath.Join(cache, "archive")
	for _, file := range []string{filepath.Join(data, "pki", "file"), filepath.Join(kept, "damaged"), filepath.Join(kept+partialSuffix+"removed", "left")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := keep(t.Context(), data, kept); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := copyListed(t.Context(), kept, to); err != nil {
		t.Errorf("the copy is the damaged one: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(to, "pki", "file")); err != nil || string(content) != "content" {
		t.Errorf("the copy has %q, %v", content, err)
	}
	if entries, err := os.ReadDir(cache); err != nil || len(entries) != 2 { // what was left is younger than partialAge
		t.Errorf("the cache has %v, %v", entries, err)
	}
}
