package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Component is a part of the server with a life of its own.
type Component interface {
	// Name for logs, status and errors.
	Name() string
	// Start brings the component up and returns when it can be used. ctx
	// cancels the start only; a component that fails or is cancelled has
	// cleaned up when Start returns.
	Start(ctx context.Context) error
	// Died delivers the error of a component that ended by itself. It may be
	// nil for one that cannot.
	Died() <-chan error
	// Stop ends the component and returns when it has ended, or with ctx's
	// error. It is called once, after a successful Start.
	Stop(ctx context.Context) error
}

// ComponentStatus is how long a component took to come up.
type ComponentStatus struct {
	Name string `json:"name"`
	// Ready is when it could be used; zero if it cannot yet.
	Ready time.Time `json:"ready,omitzero"`
	// StartSeconds is how long its own start took.
	StartSeconds float64 `json:"startSeconds"`
}

// group starts components stage by stage and stops them in reverse.
type group struct {
	log  *slog.Logger
	died chan error

	mu       sync.Mutex
	started  []Component
	status   []ComponentStatus
	stopping bool
}

func newGroup(log *slog.Logger) *group {
	return &group{log: log, died: make(chan error, 8)}
}

// start brings the components up side by side. When one fails the others are
// cancelled, and those that had come up stay in the group to be stopped.
func (g *group) start(ctx context.Context, components ...Component) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(components))
	var starting sync.WaitGroup
	for i, c := range components {
		starting.Go(func() {
			began := time.Now()
			if err := c.Start(ctx); err != nil {
				errs[i] = fmt.Errorf("%s: %w", c.Name(), err)
				cancel()
				return
			}
			if !g.up(c, began) {
				errs[i] = errors.Join(fmt.Errorf("%s came up when the others were being stopped", c.Name()), g.stopOne(c, brokenStopTimeout))
			}
		})
	}
	starting.Wait()
	return first(errs)
}

// first returns the error that came first in order of cause: one that is not
// the cancellation that another one led to.
func first(errs []error) error {
	var cancelled error
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if err != nil {
			cancelled = err
		}
	}
	return cancelled
}

// up takes in a component that has come up, unless the group is being stopped.
func (g *group) up(c Component, began time.Time) bool {
	now := time.Now()
	g.mu.Lock()
	if g.stopping {
		g.mu.Unlock()
		return false
	}
	g.started = append(g.started, c)
	g.status = append(g.status, ComponentStatus{Name: c.Name(), Ready: now, StartSeconds: now.Sub(began).Seconds()})
	g.mu.Unlock()
	g.log.Debug("component is up", "component", c.Name(), "took", now.Sub(began).Round(time.Millisecond))
	if died := c.Died(); died != nil {
		go func() {
			if err, ok := <-died; ok {
				g.died <- fmt.Errorf("%s ended: %w", c.Name(), err)
			}
		}()
	}
	return true
}

// fatal starts an orderly stop with the failure of a Kubernetes component. The
// first failure counts.
func (g *group) fatal(err error) {
	select {
	case g.died <- err:
	default:
	}
}

// components returns what is up, in the order in which it came up.
func (g *group) components() []ComponentStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]ComponentStatus{}, g.status...)
}

const (
	// stopTimeout is what each component has to end in.
	stopTimeout = 20 * time.Second
	// brokenStopTimeout is the same when one has died: the others may wait for
	// it in vain.
	brokenStopTimeout = 3 * time.Second
)

// stop ends the components in reverse order, each within the timeout, and
// joins their errors. None comes up after it.
func (g *group) stop(timeout time.Duration) error {
	g.mu.Lock()
	g.stopping = true
	started := g.started
	g.started = nil
	g.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(started) {
		if err := g.stopOne(c, timeout); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name(), err))
		}
	}
	return errors.Join(errs...)
}

func (g *group) stopOne(c Component, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, fmt.Errorf("it did not end within %s", timeout))
	defer cancel()
	began := time.Now()
	err := c.Stop(ctx)
	g.log.Debug("component is down", "component", c.Name(), "took", time.Since(began).Round(time.Millisecond))
	return err
}
