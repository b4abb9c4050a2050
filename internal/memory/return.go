package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is how often the heap is looked at.
	interval = 15 * time.Second
	// minReturn is the unused memory, in bytes, that is worth a collection.
	minReturn = 32 << 20
	// minAtRest is the same when the process has just come to rest, and again
	// after longRest.
	minAtRest = 4 << 20
	// longRest is in intervals. The pages of the program that are resident then
	// are more than the process uses at rest: others came with them.
	longRest = 4
	// maxAllocated is how much a process at rest allocates in an interval, in
	// bytes.
	maxAllocated = 16 << 20
)

// Return gives unused memory back to the system until ctx ends, when the process
// has allocated little for a while. The runtime itself waits two minutes for a
// collection without allocations, and returns memory slowly after it: 613 CRDs
// leave 340 MB resident for minutes, of which 100 are in use (bench, crds). Pages
// of the program itself go when the process comes to rest.
func Return(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	before := readHeap()
	rests := 0 // intervals in which the process was at rest
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := readHeap()
		if now.allocated-before.allocated >= maxAllocated {
			rests = 0
		} else {
			rests++
			giveBack(now.unused(), rests == 1 || rests == longRest)
		}
		before = now
	}
}

// giveBack returns unused memory, in bytes, if it is worth it, and the program's
// pages if the process has just come to rest.
func giveBack(unused uint64, settled bool) {
	if unused > minReturn || settled && unused > minAtRest {
		debug.FreeOSMemory()
	}
	if settled {
		// If it fails, the pages stay until the system wants them.
		_ = releaseProgram()
	}
}

// heap is the state of the heap in bytes.
type heap struct {
	allocated uint64 // since the start of the process
	objects   uint64 // live and dead
	live      uint64 // at the last collection
	free      uint64 // not used, not returned
}

// unused is what a collection can return.
func (h heap) unused() uint64 { return h.free + h.objects - min(h.live, h.objects) }

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}
