package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// interval is the time between two checks of the heap.
	interval = 10 * time.Second
	// minReturn is the unused memory, in bytes, that justifies a collection.
	minReturn = 32 << 20
	// lastIdleInterval is the number of the idle interval after which memory is returned the
	// last time: less than a minute, and longer than unused caches are kept.
	lastIdleInterval = 4
	// maxAllocated is the largest number of bytes that an idle process allocates in an
	// interval.
	maxAllocated = 10 << 20
)

// Manage returns unused memory of a process that runs servers to the system, until stop is called:
// when the process has allocated little in an interval, or little compared with its unused memory.
// The runtime itself waits two minutes for a collection without allocations and then returns memory
// slowly: 613 CRDs leave 279 MB for minutes instead of 117 (bench, crds).
func Manage() (stop func()) {
	stopping := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { returnMemory(stopping) })
	return func() {
		close(stopping)
		running.Wait()
	}
}

// returnMemory returns unused memory to the system until stopping is closed.
func returnMemory(stopping <-chan struct{}) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	before := readHeap()
	idleIntervals := 0 // successive intervals in which the process was idle
	for {
		select {
		case <-stopping:
			return
		case <-ticker.C:
		}
		now := readHeap()
		allocated := now.allocated - before.allocated
		if idleIntervals++; allocated >= maxAllocated {
			idleIntervals = 0
		}
		switch {
		case idleIntervals == lastIdleInterval:
			returnAll()
		case exceedsUse(now.unused(), allocated):
			debug.FreeOSMemory()
		}
		before = now
	}
}

// exceedsUse reports whether a process has much more unused memory, in bytes, than it has
// allocated in the last interval: most of it is left from larger work.
func exceedsUse(unused, allocated uint64) bool {
	return unused > minReturn && unused > 2*allocated
}

// returnAll returns what there is: unused does not include what became garbage since the
// last collection without new allocations, such as caches that were dropped. Pools keep their
// content for one collection more.
func returnAll() {
	runtime.GC()
	debug.FreeOSMemory()
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
