package appliance

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// settling is how long after readiness the last of the start's work is done:
// OpenAPI is built, the informers have filled, the caches have synced.
const settling = 10 * time.Second

// releaseStartMemory gives back what only the start needed, at readiness and
// once more when the dust has settled: the heap that building the API servers
// left behind, and the pages of the program that only initialization touched.
func releaseStartMemory(ctx context.Context, log *slog.Logger) {
	for _, wait := range []time.Duration{0, settling} {
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
