package appliance

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// busyGarbage is how much garbage a busy server may let lie. A small heap is
	// collected every few dozen megabytes, which is many times a second under
	// load and costs a tenth of what the server can do; a large one is collected
	// seldom enough, and must not become several times as large.
	busyGarbage = 128 << 20
	// busyGC bounds the percentage that follows from it.
	busyGC = 300

	// The load is looked at every paceInterval: with busyCycles collections in
	// it the server is busy, and after restIntervals without one it rests.
	paceInterval  = 2 * time.Second
	busyCycles    = 2
	restIntervals = 15
)

// keepPace has the garbage collector follow the load until ctx ends, and calls
// rests when a server that was busy, as one is that starts, comes to rest.
// usual is the percentage of a server that rests; where GOGC is set, that is
// obeyed all the time.
func keepPace(ctx context.Context, usual int, rests func()) {
	obey := os.Getenv("GOGC") != "" || usual < 0
	ticker := time.NewTicker(paceInterval)
	defer ticker.Stop()
	p := pace{usual: usual, busy: true, cycles: readCollector().cycles}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		percent, atRest := p.next(readCollector())
		if percent != 0 && !obey {
			debug.SetGCPercent(percent)
		}
		if atRest {
			rests()
		}
	}
}

// collector is what the runtime says of its garbage collector.
type collector struct {
	cycles uint64 // that it began by itself
	live   uint64 // bytes that the last one found in use
}

func readCollector() collector {
	samples := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return collector{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// pace decides.
type pace struct {
	usual  int
	cycles uint64 // at the last look
	quiet  int    // looks without a collection
	busy   bool
}

// next returns the percentage from now on, 0 for no change, and whether the
// server has come to rest.
func (p *pace) next(now collector) (percent int, rests bool) {
	cycles := now.cycles - p.cycles
	p.cycles = now.cycles
	if cycles > 0 {
		p.quiet = 0
	} else {
		p.quiet++
	}
	switch {
	case cycles >= busyCycles:
		p.busy = true
		return max(p.usual, min(busyGC, int(busyGarbage*100/max(now.live, 1)))), false
	case p.busy && p.quiet >= restIntervals:
		p.busy = false
		return p.usual, true
	}
	return 0, false
}
