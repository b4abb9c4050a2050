package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// heldHeap is the memory of the process, in bytes, at which collections begin although
// they are held. A start without objects to read takes 130 MB.
const heldHeap = 192 << 20

// held is the hold that is in force, or nil.
var (
	heldMu sync.Mutex
	held   *hold
)

type hold struct {
	percent int   // GOGC after the release
	limit   int64 // GOMEMLIMIT after the release
}

// DefaultPercent is Go's default of GOGC.
const DefaultPercent = 100

// Hold suspends garbage collection until release is called or the process has heldHeap:
// during a start, nearly all of what is allocated stays in use, and the collections take
// a third of its processor time. Then percent is the GOGC of the process. It does
// nothing if the user sets GOGC or GOMEMLIMIT. While collections are suspended already, a
// call only changes percent. Release may be called more than once, from any goroutine.
func Hold(percent int) (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	heldMu.Lock()
	defer heldMu.Unlock()
	if held != nil {
		held.percent = percent
		return held.release
	}
	held = &hold{percent, debug.SetMemoryLimit(heldHeap)}
	debug.SetGCPercent(-1)
	// The cleanup runs after the first collection, which the limit causes: above heldHeap,
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
