package appliance

import "testing"

func TestPace(t *testing.T) {
	const mega = 1 << 20
	p := &pace{usual: 100}
	look := func(cycles, live uint64, wantPercent int, wantRests bool) {
		t.Helper()
		if percent, rests := p.next(collector{cycles: p.cycles + cycles, live: live}); percent != wantPercent || rests != wantRests {
			t.Errorf("after %d cycles with %d MB: %d, %t; want %d, %t", cycles, live/mega, percent, rests, wantPercent, wantRests)
		}
	}
	for range 2 * restIntervals {
		look(0, 40*mega, 0, false) // it has always been at rest
	}
	look(1, 40*mega, 0, false)
	look(busyCycles, 40*mega, busyGC, false)
	look(busyCycles, 64*mega, 200, false)   // as much garbage, not more
	look(busyCycles, 2000*mega, 100, false) // never collected more often than usual
	for range restIntervals - 1 {
		look(0, 40*mega, 0, false)
	}
	look(1, 40*mega, 0, false) // not yet
	for range restIntervals - 1 {
		look(0, 40*mega, 0, false)
	}
	look(0, 40*mega, 100, true)
	look(0, 40*mega, 0, false) // once
}
