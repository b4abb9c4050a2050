package appliance

import (
	"runtime"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	const mega = 1 << 20
	start := time.Now()
	p := &pace{usual: 100, last: start}
	at := start
	collection := func(after time.Duration, cycles, live uint64, want int) {
		t.Helper()
		at = at.Add(after)
		if percent := p.collected(at, collector{cycles: p.cycles + cycles, live: live}); percent != want {
			t.Errorf("%d cycles with %d MB, %s after the last: %d, want %d", cycles, live/mega, after, percent, want)
		}
	}
	rests := func(want int) {
		t.Helper()
		if percent := p.rested(); percent != want || p.busy() {
			t.Errorf("at rest: %d, want %d, busy: %t", percent, want, p.busy())
		}
	}
	collection(busyInterval, 1, 40*mega, 0) // what a start leaves
	rests(0)
	collection(time.Minute, 1, 40*mega, 0) // now and then, as a server without load does
	rests(0)
	collection(busyInterval/2, 1, 40*mega, busyGC)
	collection(busyInterval/2, 1, 41*mega, 0)
	collection(10*time.Second, 1, 128*mega, 200)  // as much garbage, not more
	collection(busyInterval/2, 1, 4000*mega, 100) // never collected more often than usual
	rests(100)
	rests(0)
	collection(time.Minute, 2, 40*mega, 0)
	collection(busyInterval, 2, 40*mega, busyGC) // one was not looked at
	rests(100)
}

func TestPaceNeverTurnsTheCollectorUp(t *testing.T) {
	p := &pace{usual: 1000, last: time.Now()}
	if percent := p.collected(p.last, collector{cycles: 2, live: 1 << 30}); percent != 1000 {
		t.Errorf("a percentage that the user has chosen became %d", percent)
	}
}

func TestCollectionsAreSeen(t *testing.T) {
	seen := collections(t.Context())
	for range 3 {
		for waiting := true; waiting; {
			runtime.GC()
			select {
			case <-seen:
				waiting = false
			case <-time.After(time.Millisecond): // the next may not have been there to be collected
			}
		}
	}
}
