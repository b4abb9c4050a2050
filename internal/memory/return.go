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
	// minAtRest is the same when the process has just become idle.
	minAtRest = 4 << 20
	// longRest is the number of idle intervals until the last release: less than a minute,
	// and longer than unused caches are kept. Until then the pages of the program are
	// released after each interval, because each use of one makes its neighbours resident.
	longRest = 4
	// maxAllocated is the largest number of bytes that an idle process allocates in an
	// interval.
	maxAllocated = 10 << 20
)

// Return first waits for settleTime, in which the first clients or an early stop have the
// processor, then resumes collections (see [Hold]) and calls settled. After that it returns
// unused memory to the system until ctx ends: when the process has allocated
// little in an interval, or little compared with its unused memory. The runtime itself waits
// two minutes for a collection without allocations and then returns memory slowly: 613
// CRDs leave 340 MB resident for minutes, of which 100 are in use (bench, crds). When the
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
	rests := 0 // intervals in which the process was idle
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := readHeap()
		if allocated := now.allocated - before.allocated; allocated >= maxAllocated {
			rests = 0
			if outgrown(now.unused(), allocated) {
				debug.FreeOSMemory()
			}
		} else {
			rests++
			giveBack(now.unused(), rests)
			if rests <= longRest {
				// If one fails, the pages stay resident until the kernel reclaims them.
				_ = releaseProgram()
				_ = release(ctx)
			}
		}
		before = now
	}
}

// outgrown reports whether a process that is not idle has much more unused memory, in
// bytes, than it has allocated in the last interval: the rest is left from larger work.
func outgrown(unused, allocated uint64) bool {
	return unused > minReturn && unused > 2*allocated
}

// giveBack returns unused memory, in bytes, if there is enough of it. Less is enough when
// the process has just become idle. After longRest it returns what there is: the unused
// memory does not include what became garbage since the last collection without new
// allocations, such as caches that were dropped. Pools keep their content for one
// collection more.
func giveBack(unused uint64, rests int) {
	switch {
	case rests == longRest:
		runtime.GC()
		debug.FreeOSMemory()
	case unused > minReturn, rests == 1 && unused > minAtRest:
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
