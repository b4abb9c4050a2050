package history

import (
	"context"
	"fmt"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

const (
	pollInterval = 250 * time.Millisecond
	// noticeAfter is how long a wait is silent.
	noticeAfter = 2 * time.Second
)

// Await waits until the journal has all changes up to the present revision of the server, which
// serverRevision returns, for the limit at most. Without an answer it warns, and does not wait.
func (a *Journal) Await(ctx context.Context, serverRevision func(context.Context) (int64, error),
	limit time.Duration) error {
	wanted, err := serverRevision(ctx)
	if err != nil {
		a.warn("WARNING: the journal may lack the latest changes: %v", err)
		return nil
	}
	noticed := false
	for began := time.Now(); ; reconcile.Pause(ctx, pollInterval) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		end, err := journal.End(ctx, a.reader.Store)
		if err != nil || end >= wanted {
			return err
		}
		waited := time.Since(began)
		if waited >= limit {
			return fmt.Errorf("the journal %s ends at revision %d, and the server is at %d: the latest changes are missing; "+
				"try again when kube-hyper-mini status shows no lag, or name an earlier moment with --revision or --at",
				a.reader.Store, end, wanted)
		}
		if waited >= noticeAfter && !noticed {
			noticed = true
			a.warn("waiting up to %s for the journal, which ends at revision %d, to reach revision %d of the server", limit,
				end, wanted)
		}
	}
}
