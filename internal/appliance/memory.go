package appliance

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// settling are the waits after readiness until what follows it is done:
// OpenAPI is built, the informers have filled, the caches have synced.
var settling = []time.Duration{0, 5 * time.Second, 25 * time.Second}

const (
	// startGC lets garbage lie during the start, which makes much of it once.
	// With more, what stays lies far apart in a heap that cannot be given back:
	// at 300 the start takes 10 ms less, and 2 MB more stay.
	startGC = 150
	// servingGC is Go's own default. An idle server makes a garbage collection's
	// worth of garbage in minutes, and holds it until then.
	servingGC = 100
)

// releaseStartMemory gives back what only the start needed, at readiness and
// again as the dust settles: the heap that building the API servers
// left behind, and the pages of the program that only initialization touched.
func releaseStartMemory(ctx context.Context, log *slog.Logger) {
	debug.SetGCPercent(servingGC)
	for _, wait := range settling {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		debug.FreeOSMemory()
		if err := releaseProgramPages(); err != nil {
			log.Debug("the program's pages stay in memory", "error", err)
		}
	}
}
