package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestProvenance: it names the file by its sum, the commit and the toolchain,
// and is the same each time.
func TestProvenance(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "a.tar.gz"), filepath.Join(dir, "a.provenance.json")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"VERSION": "v1.2.3", "PLATFORM": "linux/amd64", "COMMIT": "abc", "GO_VERSION": "go1.26.0", "LDFLAGS": "-s -w", "CGO_ENABLED": "0", "BUILDER_ID": ""} {
		t.Setenv(name, value)
	}
	moment := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	var first []byte
	for range 2 {
		if err := provenance(file, out, moment); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && string(first) != string(data) {
			t.Error("a second run gives other bytes")
		}
		first = data
	}
	var s statement
	if err := json.Unmarshal(first, &s); err != nil {
		t.Fatal(err)
	}
	const sum = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73" // of "content"
	if len(s.Subject) != 1 || s.Subject[0].Name != "a.tar.gz" || s.Subject[0].Digest["sha256"] != sum {
		t.Errorf("the subject is %+v", s.Subject)
	}
	if d := s.Predicate.BuildDefinition.ResolvedDependencies; len(d) != 2 || d[0].Digest["gitCommit"] != "abc" || d[1].Name != "go1.26.0" {
		t.Errorf("it was built from %+v", d)
	}

	t.Setenv("COMMIT", "")
	if err := provenance(file, out, moment); err == nil || !strings.Contains(err.Error(), "COMMIT is not set") {
		t.Errorf("without a commit it said: %v", err)
	}
}
