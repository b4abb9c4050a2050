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

// Hold suspends garbage collection until release is called or the process has heldHeap:
// during a start, nearly all of what is allocated stays in use, and the collections take
// a third of its processor time. Then percent is the GOGC of the process. It does
// nothing if percent is 0, or if the user sets GOGC or GOMEMLIMIT. Release may be called
// more than once, from any goroutine.
func Hold(percent int) (release func()) {
	if percent == 0 || os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	limit := debug.SetMemoryLimit(heldHeap)
	debug.SetGCPercent(-1)
	release = sync.OnceFunc(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
	// The first collection finds it: with more than heldHeap in use, the limit would
	// cause one after the other.
	collected := new([64]byte)
	runtime.AddCleanup(collected, func(release func()) { release() }, release)
	return release
}
