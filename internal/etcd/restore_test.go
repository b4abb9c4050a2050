package etcd

import (
	"testing"
	"time"
)

// TestRevisionBump: a restore leads to a later revision than all restores before it, and
// than what was written after them.
func TestRevisionBump(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const journaled = 200
	after := func(revision int64, now time.Time) int64 { return revision + int64(revisionBump(revision, 0, now)) }
	restored := after(journaled, first)
	written := restored + 100_000 // in the second after
	second := first.Add(time.Second)
	if again := after(journaled, second); again <= written {
		t.Errorf("the same snapshot again: %d, not above %d", again, written)
	}
	if newer := after(written, second); newer <= written {
		t.Errorf("a newer snapshot: %d, not above %d", newer, written)
	}
	if behind := after(written, first.Add(-time.Hour)); behind != written+minRevisionBump {
		t.Errorf("with a clock that is behind: %d", behind)
	}
	ahead := time.Now().Add(6 * time.Hour).UnixMicro() // of a server whose clock was ahead
	if bump := revisionBump(5, ahead, time.Now()); 5+int64(bump) <= ahead {
		t.Errorf("the new revision is %d, and that of the journal %d", 5+bump, ahead)
	}
}
