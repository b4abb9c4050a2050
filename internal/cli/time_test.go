package cli

import (
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

// TestParseSince takes what parseTime takes, and a duration.
func TestParseSince(t *testing.T) {
	now := time.Date(2026, 11, 23, 22, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"": {}, "10m": now.Add(-10 * time.Minute), "10m ago": now.Add(-10 * time.Minute), "7d": now.Add(-7 * day), "2026-11-23 12:04": time.Date(2026, 11, 23, 12, 4, 0, 0, time.Local),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := parseSince("yesterday", now); err == nil {
		t.Error("yesterday is a time")
	}
}
