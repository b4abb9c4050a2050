package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Part is a component of a process.
type Part struct {
	// Name for logs, status and errors.
	Name string
	// Run brings the part up, calls ready when others can use it, and runs until
	// ctx ends. Then it stops, and returns when it has stopped. Calls of ready
	// after the first one do nothing. ctx may end before the part is ready. A
	// return before ctx ends is a failure, whatever the error. An error that is
	// the context's own is not reported.
	Run func(ctx context.Context, ready func()) error
}

// running is a part whose Run was called.
type running struct {
	name   string
	cancel context.CancelFunc
	ready  chan struct{} // closed when the part is ready
	ended  chan struct{} // closed when Run has returned
	err    error         // the result of Run; valid once ended is closed
}

// launch calls the part's Run. The end of ctx cancels a part that is not ready yet;
// only stop cancels one that is ready. With listed, Parts lists the part.
func (s *Supervisor) launch(ctx context.Context, part Part, listed bool) *running {
	began := time.Now()
	partCtx, cancelCause := context.WithCancelCause(context.WithoutCancel(ctx))
	r := &running{name: part.Name, cancel: func() { cancelCause(nil) },
		ready: make(chan struct{}), ended: make(chan struct{})}
	unlink := context.AfterFunc(ctx, func() { cancelCause(context.Cause(ctx)) })
	ready := sync.OnceFunc(func() {
		if unlink() { // else it is being cancelled
			if listed {
				s.recordReady(part.Name, began)
			}
			close(r.ready)
		}
	})
	go func() {
		defer close(r.ended)
		r.err = s.result(partCtx, r, part.Run(partCtx, ready))
		r.cancel()
	}()
	return r
}

// result returns the error to report after Run has returned err. A part that ended by itself
// fails the supervisor.
func (s *Supervisor) result(ctx context.Context, r *running, err error) error {
	if ctx.Err() != nil { // the part was cancelled
		if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)) {
			return nil
		}
		return fmt.Errorf("%s: %w", r.name, err)
	}
	if err == nil {
		err = errors.New("it returned without an error")
	}
	select {
	case <-r.ready:
		err = fmt.Errorf("%s ended: %w", r.name, err)
	default:
		err = fmt.Errorf("%s: %w", r.name, err)
	}
	s.Fail(err)
	return err
}

// stop cancels the part and waits until it has ended, at most for the timeout.
func (r *running) stop(timeout time.Duration) error {
	r.cancel()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-r.ended:
		return r.err
	case <-timer.C:
		return fmt.Errorf("%s: it did not end within %s", r.name, timeout)
	}
}
