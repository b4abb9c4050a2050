package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// silence is how long nothing is written after the server of a chain was killed.
const silence = 5 * heartbeat / 2

// WaitUnused returns when no server writes the newest chain of the store: at once if its
// server has stopped in order, and otherwise after a time in which nothing was written. It
// returns an error if a server writes meanwhile.
func WaitUnused(ctx context.Context, store Store) error { return waitUnused(ctx, store, silence) }

func waitUnused(ctx context.Context, store Store, silence time.Duration) error {
	before, closed, err := newestObject(ctx, store)
	if err != nil || closed {
		return err
	}
	reconcile.Pause(ctx, silence)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after, _, err := newestObject(ctx, store)
	if err == nil && after != before {
		err = fmt.Errorf("another server writes the journal %s (%s): stop it, or give this server a destination of its own", store, after)
	}
	return err
}

// newestObject names what was written last, and reports whether the server has closed the
// chain.
func newestObject(ctx context.Context, store Store) (name string, closed bool, err error) {
	numbers, err := chainNumbers(ctx, store)
	if err != nil || len(numbers) == 0 {
		return "", false, err
	}
	chain := &Chain{Number: numbers[len(numbers)-1]}
	name, _, _, err = newestEnd(ctx, store, chain.Number)
	if err != nil {
		return "", false, err
	}
	if name != "" {
		data, err := readAll(ctx, store, name, maxClaim)
		if isMissing(err) { // it was replaced meanwhile
			return name, false, nil
		}
		var e end
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		if err != nil {
			return "", false, fmt.Errorf("read %s: %w", name, err)
		}
		return name, e.Closed, nil
	}
	segments, err := chain.Segments(ctx, store, 0)
	if err != nil || len(segments) == 0 {
		return chainName(chain.Number), false, err
	}
	return segments[len(segments)-1].Object.Name, false, nil
}
