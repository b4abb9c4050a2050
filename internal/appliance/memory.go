package appliance

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

const (
	// settling is how long what follows readiness takes: OpenAPI is built, the
	// informers fill, the caches sync. A server that has no load then has come
	// to rest as long after.
	settling = time.Second / 2
	// settlingGC is for that, most of which is garbage when it is done: what
	// stays would lie far apart in a heap that cannot be given back.
	settlingGC = 30
	// usualGC is the Go runtime's own percentage.
	usualGC = 100
)

// followLoad gives back what only the start needed, and what a busy time has
// left whenever the server comes to rest, until ctx ends. A server that rests
// wakes up less often.
func followLoad(ctx context.Context, log *slog.Logger) {
	setPercent(settlingGC)
	defer setPercent(usualGC)
	select {
	case <-ctx.Done():
		return
	case <-time.After(settling):
	}
	setPercent(usualGC)
	relax := func(relaxed bool) {
		if err := relaxTimers(relaxed); err != nil {
			log.Debug("timers stay as they are", "relaxed", relaxed, "error", err)
		}
	}
	keepPace(ctx, func() { relax(false) }, func() {
		relax(true)
		releaseMemory(log)
	})
}

// releaseMemory gives back the heap that is not in use, and the pages of the
// program, of which those that are used come back.
func releaseMemory(log *slog.Logger) {
	debug.FreeOSMemory()
	if err := releaseProgramPages(); err != nil {
		log.Debug("the program's pages stay in memory", "error", err)
	}
}
