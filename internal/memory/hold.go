package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// held is the hold that is in force, or nil.
var (
	heldMu sync.Mutex
	held   *hold
)

type hold struct {
	percent int   // GOGC after the release
	limit   int64 // GOMEMLIMIT after the release
}

// The arguments of [Hold] for a server.
const (
	// DefaultPercent is Go's default of GOGC.
	DefaultPercent = 100
	// DefaultHeap lets a start collect garbage once: without a collection it takes 130 MB,
	// of which 9 MB more stay in use.
	DefaultHeap = 64 << 20
)

// Hold suspends garbage collection until release is called or the memory of the process
// reaches heap, in bytes: during a start, nearly all of what is allocated stays in use, and
// the collections take a quarter of its processor time. Then percent is the GOGC of the
// process. It does nothing if the user sets GOGC or GOMEMLIMIT. While collections are
// suspended already, a call only changes percent and heap. Release may be called more than
// once, from any goroutine.
func Hold(percent int, heap int64) (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	heldMu.Lock()
	defer heldMu.Unlock()
	if held != nil {
		held.percent = percent
		debug.SetMemoryLimit(heap)
		return held.release
	}
	held = &hold{percent, debug.SetMemoryLimit(heap)}
	debug.SetGCPercent(-1)
	// The cleanup runs after the first collection, which the limit causes: above it,
	// the limit would cause one collection after the other.
	collected := new([64]byte)
	runtime.AddCleanup(collected, func(h *hold) { h.release() }, held)
	return held.release
}

// Resume ends the hold that is in force, if there is one.
func Resume() {
	heldMu.Lock()
	h := held
	heldMu.Unlock()
	if h != nil {
		h.release()
	}
}

// release resumes collections, unless another hold has begun.
func (h *hold) release() {
	heldMu.Lock()
	defer heldMu.Unlock()
	if held != h {
		return
	}
	held = nil
	debug.SetGCPercent(h.percent)
	debug.SetMemoryLimit(h.limit)
}
