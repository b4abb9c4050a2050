package archive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestClockCorrected: a chain whose times stay ahead of the clock ends, unless the clock is
// wrong now, or segments wait for the destination.
func TestClockCorrected(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		ahead, began time.Duration // of the chain's last time, and of its claim
		based        bool          // the last time is that of its base
		pending      bool          // a segment is in the spool
		after        time.Duration // until the second look
		ends         bool
	}{
		"the clock was a day ahead":           {ahead: day, began: -day, after: 2 * time.Hour, ends: true},
		"only the base is of that time":       {ahead: day, began: -day, based: true, after: 2 * time.Hour, ends: true},
		"not for long yet":                    {ahead: day, began: -day, after: time.Minute},
		"a little ahead":                      {ahead: time.Minute, began: -day, after: 2 * time.Hour},
		"time has caught up":                  {ahead: 2 * time.Hour, began: -day, after: 90 * time.Minute},
		"the clock is before the chain began": {ahead: day, began: day / 2, after: 2 * time.Hour},
		"segments are not shipped":            {ahead: day, began: -day, pending: true, after: 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			b, err := newBuilder()
			if err != nil {
				t.Fatal(err)
			}
			s := &session{w: NewWriter(Config{Store: NewDirectory(t.TempDir()), DataDir: t.TempDir()}), builder: b}
			s.state = state{Number: 1, Claim: Claim{Created: now.Add(test.began)}}
			if latest := now.Add(test.ahead); test.based {
				s.since.made = latest
			} else {
				s.last = &tail{header: &Header{LastTime: latest.UnixMilli()}}
			}
			if test.pending {
				s.w.spool.next = 1
			}
			if err := s.checkClock(now); err != nil {
				t.Fatalf("the chain ends at once: %v", err)
			}
			if err := s.checkClock(now.Add(test.after)); (err != nil) != test.ends {
				t.Errorf("the chain ends with %v, want an error: %t", err, test.ends)
			}
		})
	}
}

// TestClockSetBackByADay: the chain ends at the next change, and that change and the base
// of the next chain have the time of the clock.
func TestClockSetBackByADay(t *testing.T) {
	t.Parallel()
	store := NewDirectory(t.TempDir())
	f := start(t, store, t.TempDir(), nil)
	f.caughtUp()
	f.history(1)
	f.caughtUp()
	f.stopWriter()
	s, err := f.writer.resume()
	if err != nil {
		t.Fatal(err)
	}
	s.last.header.LastTime = time.Now().Add(24 * time.Hour).UnixMilli()
	s.aheadSince = time.Now().Add(-2 * maxClockLead)
	number := f.put("later", "1")
	response, err := f.member.Client().Get(t.Context(), "later")
	if err != nil {
		t.Fatal(err)
	}
	change := clientv3.WatchResponse{Events: []*clientv3.Event{{Kv: response.Kvs[0]}}}
	if _, err = s.take(t.Context(), change, ""); err == nil {
		t.Fatal("the chain goes on")
	}
	wants(t, err, "the clock was set back", "chain 1 are 24h0m0s ahead")
	next, err := f.writer.begin(t.Context(), err.Error())
	if err != nil {
		t.Fatal(err)
	}
	if err := next.makeBase(t.Context()); err != nil {
		t.Fatal(err)
	}
	if base := claims(t, store)[1].Bases[0]; base.Revision < number || base.Time.After(time.Now()) {
		t.Errorf("the base of the next chain is of revision %d and %s", base.Revision, base.Time)
	}
	if at := next.stamp(time.Now()); at.After(time.Now()) {
		t.Errorf("a change has the time %s", at)
	}
}

// TestRetentionAfterAWrongClock: a chain with times after the horizon stays, although the
// base of a later one is before it.
func TestRetentionAfterAWrongClock(t *testing.T) {
	t.Parallel()
	now := time.Now()
	old, recent, future := now.Add(-48*time.Hour), now.Add(-time.Minute), now.Add(24*time.Hour)
	for name, test := range map[string]struct {
		base, change time.Time // of the first chain
		kept         bool
	}{
		"it ended before the horizon":  {old, old, false},
		"its last change is recent":    {old, recent, true},
		"its base is of a later clock": {future, time.Time{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := NewDirectory(t.TempDir())
			put := func(name, content string) {
				t.Helper()
				if err := store.Create(t.Context(), name, strings.NewReader(content), int64(len(content))); err != nil {
					t.Fatal(err)
				}
			}
			for number, base := range map[int]time.Time{1: test.base, 2: old} {
				claim, err := json.Marshal(Claim{Format: Format, ID: fmt.Sprint(number), Writer: "w"})
				if err != nil {
					t.Fatal(err)
				}
				put(chainName(number, chainFile), string(claim))
				put(chainName(number, basesDir, BaseName{Revision: int64(number), Sequence: 1, Time: base, Extension: ".tar.gz"}.String()), "x")
			}
			if !test.change.IsZero() {
				put(chainName(1, segmentsDir, SegmentName{Sequence: 1, First: 2, Last: 3, FirstTime: test.change, LastTime: test.change}.String()), "x")
			}
			s := &session{w: NewWriter(Config{Store: store, DataDir: t.TempDir(), Retention: time.Hour})}
			if err := s.retain(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := names(t, store, chainName(1)); (len(left) > 0) != test.kept {
				t.Errorf("of the first chain there is %q, want any: %t", left, test.kept)
			}
		})
	}
}
