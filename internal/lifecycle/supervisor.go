package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// stopTimeout bounds the stop of each part.
	stopTimeout = 20 * time.Second
	// failedStopTimeout is the same after a failure: the other parts may
	// wait for the one that failed.
	failedStopTimeout = 3 * time.Second
)

// Config of a supervisor.
type Config struct {
	Log *slog.Logger
	// StopGrace is added to the time in which each part must stop, unless one has failed.
	StopGrace time.Duration
	// Ready is called when everything has started. Its context ends when the stop
	// begins, and Run waits for its return. It may be nil.
	Ready func(ctx context.Context)
	// Stopping is called before the first part is stopped, also after a start that
	// failed. It may be nil.
	Stopping func()
}

// Supervisor runs the parts of one process once. Its methods are safe for
// concurrent use.
type Supervisor struct {
	config Config
	parent context.Context // ends when the process must stop
	ctx    context.Context // ends with parent, or with the first failure
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	failure error      // the first
	parts   []*running // in the order of their start
}

// New returns a supervisor without parts. The end of ctx stops the process.
func New(ctx context.Context, config Config) *Supervisor {
	s := &Supervisor{config: config, parent: ctx}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// Run calls start, which calls [Supervisor.Start] for each stage, and waits until the
// process must stop or a part fails. Then it stops the parts in reverse order. It
// returns nil after an orderly stop, also during the start; otherwise all errors, the
// first one last.
func (s *Supervisor) Run(start func(ctx context.Context) error) error {
	defer s.cancel(nil)
	if err := start(s.ctx); err != nil {
		s.Fail(err)
	}
	switch {
	case s.ctx.Err() == nil:
		if s.config.Ready != nil {
			s.config.Ready(s.ctx)
		}
		<-s.ctx.Done()
		if s.firstFailure() == nil {
			s.config.Log.Info("stopping")
		}
	case s.firstFailure() == nil:
		s.config.Log.Info("stopped during the start")
	}
	began := time.Now()
	if s.config.Stopping != nil {
		s.config.Stopping()
	}
	err := s.stop()
	s.config.Log.Info("stopped", "took", time.Since(began).Round(time.Millisecond).String())
	return err
}

// Start runs the parts side by side and returns when all are ready. It returns
// an error as soon as one fails, one that was started before has failed, or ctx
// ends; the parts of this stage that are not ready yet are cancelled then. ctx is
// the one that Run hands out.
func (s *Supervisor) Start(ctx context.Context, parts ...Part) error {
	var stage []*running
	for _, part := range parts {
		r := s.launch(ctx, part, true)
		stage = append(stage, r)
		s.add(r)
	}
	for _, r := range stage {
		select {
		case <-r.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Go runs background work that is stopped with the parts, in the reverse order of
// its start. The work reports its failures itself, and may end before ctx does.
// ctx is the one that Run hands out.
func (s *Supervisor) Go(ctx context.Context, name string, work func(ctx context.Context)) {
	r := s.launch(ctx, Part{Name: name, Run: func(ctx context.Context, ready func()) error {
		ready()
		work(ctx)
		<-ctx.Done()
		return nil
	}}, false)
	s.add(r)
}

func (s *Supervisor) add(r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, r)
}

// Fail begins the stop with the error. It does nothing when the process is
// already being stopped.
func (s *Supervisor) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.failure = err
	s.cancel(err)
}

func (s *Supervisor) firstFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// recordReady logs that a part is ready.
func (s *Supervisor) recordReady(name string, began time.Time) {
	s.config.Log.Debug("component is up", "component", name, "took", time.Since(began).Round(time.Millisecond))
}

// stop ends the parts in reverse order. A part that does not end in time is left
// behind.
func (s *Supervisor) stop() error {
	s.mu.Lock()
	parts, failure := s.parts, s.failure
	s.mu.Unlock()
	timeout := stopTimeout + s.config.StopGrace
	if failure != nil {
		timeout = failedStopTimeout
	}
	var errs []error
	for _, r := range slices.Backward(parts) {
		began := time.Now()
		if err := r.stop(timeout); err != nil && !errors.Is(failure, err) {
			errs = append(errs, err)
		}
		s.config.Log.Debug("component is down", "component", r.name, "took", time.Since(began).Round(time.Millisecond))
	}
	return errors.Join(append(errs, failure)...)
}
