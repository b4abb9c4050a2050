package logging

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"
)

func newRecent(now *time.Time) (*recentWarnings, *slog.Logger) {
	kept := &recentWarnings{now: func() time.Time { return *now }}
	return kept, slog.New(&recentHandler{Handler: newHandler(io.Discard, Options{}), recent: kept})
}

// TestRecentWarnings: equal texts are counted, and an hour later they are dropped.
func TestRecentWarnings(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	kept, log := newRecent(&now)
	log.Info("ready")
	log.With("dir", "/a b").Warn("the disk is slow", "took", "2s")
	now = now.Add(time.Minute)
	log.Error("the backup failed")
	log.With("dir", "/a b").Warn("the disk is slow", "took", "2s")
	got := kept.read()
	if len(got) != 2 || got[0].Level != "error" || got[0].Text != "the backup failed" || got[0].Count != 1 {
		t.Fatalf("kept: %+v", got)
	}
	if want := `the disk is slow dir="/a b" took=2s`; got[1].Text != want || got[1].Level != "warning" || got[1].Count != 2 || !got[1].Last.Equal(now) {
		t.Errorf("got %+v, want %q twice at %s", got[1], want, now)
	}
	now = now.Add(recentTime + time.Second)
	if got := kept.read(); len(got) != 0 {
		t.Errorf("an hour later: %+v", got)
	}
}

// TestRecentWarningsAreBounded: many different texts and long ones take bounded memory.
func TestRecentWarningsAreBounded(t *testing.T) {
	now := time.Now()
	kept, log := newRecent(&now)
	for i := range 3 * maxRecent {
		log.Warn(fmt.Sprintf("%d %0*d", i, 2*maxRecentText, 0))
	}
	got := kept.read()
	if len(got) != maxRecent || got[0].Text[:4] != "200 " || len(got[0].Text) > maxRecentText+3 {
		t.Errorf("%d texts are kept, the first is %q", len(got), got[0].Text)
	}
}

// TestKeepWarnings: a log whose warnings are kept apart has its own, and the log below has all.
func TestKeepWarnings(t *testing.T) {
	now := time.Now()
	all, log := newRecent(&now)
	acme, beta := slog.New(KeepWarnings(log.Handler())).With("plane", "acme"), slog.New(KeepWarnings(log.Handler()))
	acme.Warn("the disk is slow")
	log.Warn("of the process")
	if got := Warnings(acme.With("more", 1)); len(got) != 1 || got[0].Text != "the disk is slow plane=acme" {
		t.Errorf("acme has %+v", got)
	}
	if got := Warnings(beta); len(got) != 0 {
		t.Errorf("beta has %+v", got)
	}
	if got := all.read(); len(got) != 2 {
		t.Errorf("the process has %+v", got)
	}
}
