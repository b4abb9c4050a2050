package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestParseTime: a time is taken as the lists print it, with all of its second, in RFC 3339,
// and as a duration ago.
func TestParseTime(t *testing.T) {
	now := time.Date(2026, 11, 23, 22, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"2026-11-23T12:04:05Z":    time.Date(2026, 11, 23, 12, 4, 5, 0, time.UTC),
		"2026-11-23 12:04:05":     time.Date(2026, 11, 23, 12, 4, 5, 999_000_000, time.Local),
		"2026-11-23 12:04:05.250": time.Date(2026, 11, 23, 12, 4, 5, 250_000_000, time.Local),
		"2026-11-23 12:04":        time.Date(2026, 11, 23, 12, 4, 0, 0, time.Local),
		"2026-11-22":              time.Date(2026, 11, 22, 0, 0, 0, 0, time.Local),
		"10m ago":                 now.Add(-10 * time.Minute),
		"2d ago":                  now.Add(-48 * time.Hour),
		"ten minutes ago":         {},
		"yesterday":               {},
	} {
		if got, err := parseTime(text, now); !got.Equal(want) || (err != nil) != want.IsZero() {
			t.Errorf("%q is %s, %v, want %s", text, got, err, want)
		}
	}
}

// TestRestoreNamesTheDirectory: the content of a directory that no flag names is not replaced.
func TestRestoreNamesTheDirectory(t *testing.T) {
	data := t.TempDir()
	if err := requireNamed(data, false); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	stamp := `{"format":1,"version":"v0.0.0-dev","kubernetes":"v1.36.3","etcd":"3.6.16"}`
	if err := os.WriteFile(filepath.Join(data, "version.json"), []byte(stamp), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := requireNamed(data, false); err == nil || !strings.Contains(err.Error(), "which this would replace: name it with --data-dir "+data) {
		t.Errorf("a directory with data: %v", err)
	}
	if err := requireNamed(data, true); err != nil {
		t.Errorf("with --data-dir: %v", err)
	}
}
