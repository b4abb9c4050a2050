package appliance

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// busyGarbage is how much garbage a busy server may let lie. A small heap is
	// collected every few dozen megabytes, which is many times a second under
	// load and costs a sixth of what the server can do; a large one is collected
	// seldom enough, and must not become several times as large.
	busyGarbage = 256 << 20
	// busyGC bounds the percentage that follows from it.
	busyGC = 400
	// A server that collects twice within busyInterval is busy, and one that
	// has not collected for restInterval rests.
	busyInterval = time.Second
	restInterval = 30 * time.Second
	// paceSteps are the steps of the percentage.
	paceSteps = 20
)

// keepPace has the garbage collector follow the load until ctx ends. It calls
// rests when a server that was busy, as one is that starts, comes to rest, and
// wakes when it is busy again. It looks after collections only, so that a server
// without load has nothing to do.
func keepPace(ctx context.Context, wakes, rests func()) {
	rest := time.NewTimer(settling)
	defer rest.Stop()
	// Of a start, something is left twice: by the start itself, and by what
	// trickles in after it.
	due, resting := 2, false
	collections := collections(ctx)
	p := pace{usual: usualGC, cycles: readCollector().cycles, last: time.Now()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-collections:
			now := readCollector()
			if now.cycles == p.cycles {
				continue // asked for, by rests for one
			}
			setPercent(p.collected(time.Now(), now))
			if p.busy() {
				due = 1
			}
			if p.busy() && resting {
				resting = false
				wakes()
			}
			rest.Reset(restInterval)
		case <-rest.C:
			if due == 0 {
				continue // until the next collection
			}
			due--
			resting = true
			setPercent(p.rested())
			rests()
			rest.Reset(restInterval)
		}
	}
}

// setPercent changes the collector's percentage, unless it is 0 or GOGC says
// what it has to be.
func setPercent(percent int) {
	if percent != 0 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// collections sends after garbage was collected, until ctx ends. What was
// collected is an object of its own.
func collections(ctx context.Context) <-chan struct{} {
	collected := make(chan struct{}, 1)
	var await func(context.Context)
	await = func(ctx context.Context) {
		if ctx.Err() != nil {
			return
		}
		runtime.AddCleanup(&struct{ *int }{}, await, ctx)
		select {
		case collected <- struct{}{}:
		default: // the one before was not looked at yet
		}
	}
	runtime.AddCleanup(&struct{ *int }{}, await, ctx)
	return collected
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
	usual   int
	cycles  uint64    // at the last collection
	last    time.Time // when that was
	percent int       // in force while the server is busy, else 0
}

func (p *pace) busy() bool { return p.percent != 0 }

// collected returns the percentage that follows from a collection, 0 for no
// change.
func (p *pace) collected(at time.Time, now collector) int {
	elapsed, cycles := at.Sub(p.last), now.cycles-p.cycles
	p.last, p.cycles = at, now.cycles
	if !p.busy() && elapsed >= time.Duration(cycles)*busyInterval {
		return 0
	}
	percent := max(p.usual, min(busyGC, int(busyGarbage*100/max(now.live, 1))))
	percent -= percent % paceSteps // setting it stops the world
	if percent == p.percent {
		return 0
	}
	p.percent = percent
	return percent
}

// rested returns the percentage that follows from there being no collection
// for a while, 0 for no change.
func (p *pace) rested() int {
	if !p.busy() {
		return 0
	}
	p.percent = 0
	return p.usual
}
