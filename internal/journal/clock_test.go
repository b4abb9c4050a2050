package journal

import (
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
	if _, err = s.take(change, ""); err == nil {
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

// TestOldestNeeded: the retention counts the time between bases, and a clock that jumps takes
// nothing young from it.
func TestOldestNeeded(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		chains        [][]time.Duration // of the bases, since began
		number, index int
	}{
		"no base":                          {[][]time.Duration{{}}, 0, 0},
		"all within the retention":         {[][]time.Duration{{0, 1 * day, 2 * day, 3 * day}}, 0, 0},
		"the first is older":               {[][]time.Duration{{0, 1 * day, 2 * day, 3 * day, 4 * day, 5 * day, 6 * day, 7 * day}}, 1, 1},
		"the first chain is older":         {[][]time.Duration{{0}, {}, {1 * day, 2 * day, 3 * day, 4 * day, 5 * day, 6 * day, 7 * day}}, 3, 0},
		"400 days ahead for a moment":      {[][]time.Duration{{0}, {20 * time.Second, 400 * day}}, 0, 0},
		"ahead for a moment after 4 days":  {[][]time.Duration{{0, 1 * day, 2 * day, 3 * day, 4 * day, 400 * day}}, 0, 0},
		"ahead in two chains":              {[][]time.Duration{{0, day}, {400 * day}, {day + time.Hour}}, 0, 0},
		"ahead and corrected a year later": {[][]time.Duration{{0}, {400 * day, 401 * day, 402 * day, 403 * day, 404 * day, 405 * day, 406 * day}}, 2, 0},
		"changes once a week":              {[][]time.Duration{{0, 7 * day, 14 * day, 21 * day, 28 * day, 35 * day, 42 * day}}, 1, 0},
	} {
		var chains []*Chain
		for i, bases := range c.chains {
			chain := &Chain{Number: i + 1, Claim: &Claim{}}
			for _, at := range bases {
				chain.Bases = append(chain.Bases, Base{BaseName: BaseName{Time: began.Add(at)}})
			}
			chains = append(chains, chain)
		}
		if number, index := oldestNeeded(chains, 4*day+time.Hour); number != c.number || index != c.index {
			t.Errorf("%s: base %d of chain %d, want base %d of chain %d", name, index, number, c.index, c.number)
		}
	}
}
