package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// settleTime is the time from readiness to the collection that ends a start, which
	// takes both cores for 50 ms.
	settleTime = 500 * time.Millisecond
	// interval is the time between two checks of the heap.
	interval = 10 * time.Second
	// minReturn is the unused memory, in bytes, that justifies a collection.
	minReturn = 32 << 20
	// minWhenIdle is the same in the first idle interval.
	minWhenIdle = 4 << 20
	// lastIdleInterval is the number of the idle interval after which memory is returned the
	// last time: less than a minute, and longer than unused caches are kept. Until then the
	// pages of the program are released after each interval, because each use of one makes
	// its neighbours resident.
	lastIdleInterval = 4
	// maxAllocated is the largest number of bytes that an idle process allocates in an
	// interval.
	maxAllocated = 10 << 20
)

// Return first waits for settleTime, in which the first clients or an early stop have the
// processor, then resumes collections (see [Hold]) and calls settled. After that it returns
// unused memory to the system until ctx ends: when the process has allocated
// little in an interval, or little compared with its unused memory. The runtime itself waits
// two minutes for a collection without allocations and then returns memory slowly: 613
// CRDs leave 279 MB resident for minutes instead of 117 (bench, crds). When the
// process becomes idle, it also releases pages of the program, and calls release, which
// does the same for other files.
func Return(ctx context.Context, settled func(), release func(context.Context) error) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(settleTime):
	}
	Resume()
	settled()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	before := readHeap()
	idleIntervals := 0 // successive intervals in which the process was idle
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := readHeap()
		if allocated := now.allocated - before.allocated; allocated >= maxAllocated {
			idleIntervals = 0
			if exceedsUse(now.unused(), allocated) {
				debug.FreeOSMemory()
			}
		} else {
			idleIntervals++
			returnUnused(now.unused(), idleIntervals)
			if idleIntervals <= lastIdleInterval {
				// If one fails, the pages stay resident until the kernel reclaims them.
				_ = releaseProgram()
				_ = release(ctx)
			}
		}
		before = now
	}
}

// exceedsUse reports whether a process that is not idle has much more unused memory, in
// bytes, than it has allocated in the last interval: most of it is left from larger work.
func exceedsUse(unused, allocated uint64) bool {
	return unused > minReturn && unused > 2*allocated
}

// returnUnused returns unused memory, in bytes, if there is enough of it; in the first idle
// interval, less is enough. After the interval lastIdleInterval it returns what there is:
// unused does not include what became garbage since the last collection without new
// allocations, such as caches that were dropped. Pools keep their content for one
// collection more.
func returnUnused(unused uint64, idleIntervals int) {
	switch {
	case idleIntervals == lastIdleInterval:
		runtime.GC()
		debug.FreeOSMemory()
	case unused > minReturn, idleIntervals == 1 && unused > minWhenIdle:
		debug.FreeOSMemory()
	}
}

// heap is the state of the heap in bytes.
type heap struct {
	allocated uint64 // since the start of the process
	objects   uint64 // live and dead
	live      uint64 // at the last collection
	free      uint64 // not used, not returned
}

// unused is the memory, in bytes, that a collection can return.
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
