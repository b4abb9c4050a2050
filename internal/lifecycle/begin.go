package lifecycle

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Begin runs a part for a caller that stops it, without a [Supervisor]. run is the Run of
// a [Part]. Begin returns when the part is ready, or the error of a part that was not. The
// end of ctx cancels a part that is not ready yet. stop ends the part, waits until it has
// ended, and returns its error, also if it had ended by itself; later calls return the
// same. It is safe for concurrent use.
func Begin(ctx context.Context, run func(ctx context.Context, ready func()) error) (stop func() error, err error) {
	partCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	ready, ended := make(chan struct{}), make(chan error, 1)
	markReady := sync.OnceFunc(func() {
		if unlink() { // else it is being cancelled
			close(ready)
		}
	})
	go func() { ended <- run(partCtx, markReady) }()
	stop = sync.OnceValue(func() error {
		cancel(nil)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	select {
	case <-ready:
		return stop, nil
	case err := <-ended:
		cancel(errors.New("it returned without an error")) // the cause unless ctx has ended
		if err == nil {
			err = context.Cause(partCtx)
		}
		return nil, err
	}
}

// WaitAtMost waits until the goroutines of the group have ended, or the limit is over.
func WaitAtMost(group *sync.WaitGroup, limit time.Duration) {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(limit):
	}
}
