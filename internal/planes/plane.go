package planes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// state is the state of a plane in memory.
type state int

const (
	asleep  state = iota
	waking        // it starts
	awake         // it serves
	falling       // it stops
	gone          // it is being deleted
)

// plane is one control plane.
type plane struct {
	manager *Manager
	name    string

	mu       sync.Mutex
	spec     Spec
	made     bool // its directory has data
	state    state
	changed  chan struct{} // closed and replaced at each change of state
	server   *controlplane.ControlPlane
	handler  http.Handler // of server, without authentication
	requests int          // in flight, without watches
	settling bool         // see sleep
	lastUsed time.Time
	failure  error // of the last start
	failedAt time.Time
	// revision is that at which it sleeps, as a resourceVersion, if each of its watches has had
	// all events up to it; else empty.
	revision string
	watches  map[*watcher]struct{}
	serving  sync.WaitGroup // watches in the handler
	media    map[string]string
	size     int64
}

func newPlane(m *Manager, name string) *plane {
	return &plane{manager: m, name: name, changed: make(chan struct{}), watches: map[*watcher]struct{}{}, media: map[string]string{}}
}

// dir is the data directory.
func (p *plane) dir() string { return filepath.Join(p.manager.dir(), p.name) }

// set changes the state. p.mu is held.
func (p *plane) set(s state) {
	p.state = s
	close(p.changed)
	p.changed = make(chan struct{})
	p.manager.queue.Add(p.name) // the status
}

// isAsleep reports whether a request would wake the control plane.
func (p *plane) isAsleep() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == asleep
}

// use returns the handler of the running control plane, and wakes it if necessary. The caller
// calls done at the end of its request.
func (p *plane) use(ctx context.Context) (handler http.Handler, done func(), err error) {
	for {
		p.mu.Lock()
		switch p.state {
		case gone:
			p.mu.Unlock()
			return nil, nil, errNotFound
		case awake:
			p.requests++
			p.lastUsed = time.Now()
			handler := p.handler
			p.mu.Unlock()
			return handler, p.done, nil
		case asleep:
			if p.failure != nil && time.Since(p.failedAt) < failureMemory {
				err := p.failure
				p.mu.Unlock()
				return nil, nil, err
			}
			if !p.manager.begin(p.wake) {
				p.mu.Unlock()
				return nil, nil, errNotRunning
			}
			p.set(waking)
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// done ends a request.
func (p *plane) done() {
	p.mu.Lock()
	p.requests--
	p.lastUsed = time.Now()
	p.mu.Unlock()
}

// used returns the time of the last request.
func (p *plane) used() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests > 0 {
		return time.Now()
	}
	return p.lastUsed
}

// idleSince returns the time of the last request, and whether the control plane is awake
// without one.
func (p *plane) idleSince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastUsed, p.state == awake && p.requests == 0
}

func (p *plane) currentSpec() Spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec
}

// wake starts the control plane, whose state is waking.
func (p *plane) wake(ctx context.Context) {
	server, err := p.start(ctx)
	if err != nil {
		p.serving.Wait() // watches that it had begun to serve
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.manager.config.Log.Warn("a control plane does not start", "plane", p.name, "error", err)
		p.failure, p.failedAt = err, time.Now()
		p.set(asleep)
		return
	}
	p.failure, p.server, p.lastUsed, p.made, p.revision = nil, server, time.Now(), true, ""
	p.set(awake)
	p.manager.begin(func(context.Context) { p.follow(server) })
}

// start takes room and starts a server.
func (p *plane) start(ctx context.Context) (*controlplane.ControlPlane, error) {
	if err := p.manager.takeRoom(ctx); err != nil {
		return nil, err
	}
	select {
	case p.manager.starts <- struct{}{}:
	case <-ctx.Done():
		p.manager.giveRoom()
		return nil, context.Cause(ctx)
	}
	defer func() { <-p.manager.starts }()
	server, err := p.launch(ctx)
	if err != nil {
		p.manager.giveRoom()
	}
	return server, err
}

// launch starts a server in the directory.
func (p *plane) launch(ctx context.Context) (*controlplane.ControlPlane, error) {
	p.mu.Lock()
	made, spec := p.made, p.spec
	p.mu.Unlock()
	_, err := os.Stat(filepath.Join(p.dir(), "pki"))
	copied := spec.From.ControlPlane != "" && errors.Is(err, fs.ErrNotExist) // and never started
	if _, err := os.Stat(p.dir()); errors.Is(err, fs.ErrNotExist) && made {
		return nil, fmt.Errorf("its directory %s is missing: put it back, or delete the ControlPlane", p.dir())
	}
	server, err := controlplane.New(controlplane.Options{
		Dir: p.dir(), Config: configuration(p.manager.config.Host, spec), NewIdentity: copied, Log: warningsOf(p.manager.config.Log, p.name),
		Middleware: func(next http.Handler) http.Handler {
			p.mu.Lock()
			p.handler = next
			p.mu.Unlock()
			return next
		},
		RequestAuthenticators: []authenticator.Request{p.manager.administrators.of(p.name)},
		WhileServing:          p.whileServing,
	})
	if err != nil {
		return nil, err
	}
	if err := server.Start(ctx); err != nil {
		return nil, err
	}
	return server, nil
}

// follow records the failure of a server that ends by itself.
func (p *plane) follow(server *controlplane.ControlPlane) {
	<-server.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != awake || p.server != server {
		return // it was stopped
	}
	p.server, p.handler, p.revision = nil, nil, ""
	p.set(falling) // until its watches have ended
	p.mu.Unlock()
	p.serving.Wait()
	p.manager.giveRoom()
	p.mu.Lock()
	p.failure, p.failedAt = fmt.Errorf("it ended: %w", server.Err()), time.Now()
	p.set(asleep)
}

// whileServing continues the parked watches before the first write, and checks at the end that
// nothing was written since the watches were found up to date.
func (p *plane) whileServing(ctx context.Context, ready func()) error {
	p.resume(ctx)
	ready()
	<-ctx.Done()
	p.mu.Lock()
	server, revision := p.server, p.revision
	p.mu.Unlock()
	if server == nil || revision == "" {
		return nil
	}
	current := ""
	client, err := newRevisions(server)
	if err == nil {
		current, err = client.current(context.WithoutCancel(ctx))
	}
	if err != nil || current != revision {
		p.mu.Lock()
		p.revision = "" // the watches end, and their clients ask again
		p.mu.Unlock()
	}
	return nil
}

// sleep stops the control plane if it has been idle for the time. It reports whether it has.
func (p *plane) sleep(ctx context.Context, after time.Duration) bool {
	p.mu.Lock()
	used := p.lastUsed
	if p.settling || p.state != awake || p.requests > 0 || time.Since(used) < after {
		p.mu.Unlock()
		return false
	}
	p.settling = true
	p.mu.Unlock()
	revision, quiet := p.settle(ctx)
	p.mu.Lock()
	p.settling = false
	if p.state != awake || p.requests > 0 || p.lastUsed != used || !quiet {
		p.mu.Unlock()
		return false
	}
	p.revision = revision
	p.halt()
	return true
}

// shut stops the control plane whatever it does, at the end of the host. Its watches end.
func (p *plane) shut() {
	for {
		p.mu.Lock()
		for x := range p.watches {
			x.cancel()
		}
		changed := p.changed
		switch p.state {
		case awake:
			p.revision = ""
			p.halt()
			continue
		case waking, falling:
			p.mu.Unlock()
			<-changed
			continue
		}
		p.mu.Unlock()
		return
	}
}

// halt stops the server. p.mu is held, and released.
func (p *plane) halt() {
	server := p.server
	p.set(falling)
	p.mu.Unlock()
	err := server.Stop(context.Background())
	p.serving.Wait()                     // the watches are parked, or have ended
	size, _ := datadir.TreeSize(p.dir()) // for people: what could be counted
	p.mu.Lock()
	p.server, p.handler, p.size = nil, nil, size
	if p.revision == "" {
		for x := range p.watches {
			x.cancel()
		}
	}
	if err != nil {
		p.failure, p.failedAt = fmt.Errorf("it stopped with an error: %w", err), time.Now()
	}
	p.set(asleep)
	p.mu.Unlock()
	p.manager.giveRoom()
}

// hold puts the control plane to sleep, whatever it does, and keeps it asleep until release is
// called: requests wait.
func (p *plane) hold(ctx context.Context) (release func(), err error) {
	for {
		p.mu.Lock()
		switch p.state {
		case gone:
			p.mu.Unlock()
			return nil, errNotFound
		case awake:
			p.revision = ""
			p.halt()
			continue
		case asleep:
			p.set(waking)
			p.mu.Unlock()
			return func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.set(asleep)
			}, nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// remove ends the control plane for good and removes its directory.
func (p *plane) remove(ctx context.Context) error {
	if _, err := p.hold(ctx); err != nil && !errors.Is(err, errNotFound) {
		return fmt.Errorf("remove the control plane: %w", err)
	}
	p.mu.Lock()
	p.set(gone)
	for x := range p.watches {
		x.cancel()
	}
	p.mu.Unlock()
	removed := filepath.Join(p.manager.dir(), removedPrefix+p.name)
	if err := os.Rename(p.dir(), removed); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the control plane: %w", err)
	}
	if err := os.RemoveAll(removed); err != nil {
		return fmt.Errorf("remove the control plane: %w", err)
	}
	return nil
}

// removedPrefix is that of directories whose removal was begun. Names of control planes have
// no dots.
const removedPrefix = ".removed-"
