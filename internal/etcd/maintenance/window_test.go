package maintenance

import (
	"testing"
	"time"
)

// TestLargeDatabasesWaitForTheWindow: users do not wait at any hour for the
// defragmentation of a large database.
func TestLargeDatabasesWaitForTheWindow(t *testing.T) {
	night := func(t time.Time) bool { return t.Hour() < 5 }
	day, early := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		inUse  int64
		at     time.Time
		window func(time.Time) bool
		want   bool
	}{
		{100 << 20, day, night, true},
		{100 << 20, day, nil, true},
		{4 << 30, day, night, false},
		{4 << 30, early, night, true},
		{4 << 30, early, nil, false},
	} {
		k := &Keeper{config: Config{MaximumInUse: 256 << 20, Window: test.window}}
		if got := k.allowed(usage{inUse: test.inUse}, test.at); got != test.want {
			t.Errorf("%d bytes at %s: %v", test.inUse, test.at.Format(time.Kitchen), got)
		}
	}
}
