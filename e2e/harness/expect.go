package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The exit codes that the commands' help documents.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitUsage    = 2
	ExitNotReady = 3
	ExitFindings = 4
)

// Runs executes the binary and returns what it printed. Another exit code than
// the given one fails the test.
func Runs(t testing.TB, code int, args ...string) string {
	t.Helper()
	out, got := CLI(t, args...)
	if got != code {
		t.Fatalf("%v ended with exit code %d, want %d:\n%s", args, got, code, out)
	}
	return out
}

// Contains fails the test for each part that the text lacks. The test continues.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// ConfigFile writes a configuration with the content after apiVersion and kind,
// and returns its path.
func ConfigFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	content = "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\n" + content
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
