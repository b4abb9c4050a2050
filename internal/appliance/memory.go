package appliance

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// settling are the waits after readiness until what follows it is done:
// OpenAPI is built, the informers have filled, the caches have synced.
var settling = []time.Duration{time.Second, 29 * time.Second}

// settlingGC is for what follows readiness at once, most of which is garbage
// when it is done: what stays would lie far apart in a heap that cannot be given
// back. Before and after it, the Go runtime's own percentage is in force.
const settlingGC = 30

// manageMemory gives back what only the start needed, at readiness and again as
// the dust settles: the heap that building the API servers left behind, and the
// pages of the program that only initialization touched. After that it keeps
// pace with the load, until ctx ends.
func manageMemory(ctx context.Context, log *slog.Logger) {
	usual := debug.SetGCPercent(settlingGC)
	defer debug.SetGCPercent(usual)
	var pacing sync.WaitGroup
	defer pacing.Wait()
	for i, wait := range settling {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if i == 0 {
			debug.SetGCPercent(usual)
			pacing.Go(func() { keepPace(ctx, usual) })
		}
		debug.FreeOSMemory()
		if err := releaseProgramPages(); err != nil {
			log.Debug("the program's pages stay in memory", "error", err)
		}
	}
}
