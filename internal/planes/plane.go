package planes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// state is the state of a plane in memory.
type state int

const (
	asleep   state = iota
	waking         // it starts, or is held
	awake          // it serves
	stopping       // it stops
	gone           // it is being deleted
)

// plane is one control plane. A sleeping one has few heap objects: each may keep freed memory from
// being returned to the system.
type plane struct {
	manager *Manager
	name    string
	uid     types.UID // of its ControlPlane

	mu       sync.Mutex
	spec     Spec
	outdated bool // what is configured has changed since the last start
	made     bool // its directory has data
	state    state
	changed  chan struct{} // what change has returned since the last change of state
	server   *controlplane.ControlPlane
	handler  *served                 // of server
	entered  int                     // requests without watches, those that wait for a start included
	requests int                     // those of them in the handler
	waiting  int                     // those that wait for a start or a stop, watches included
	giveUp   context.CancelCauseFunc // of a start that waits for room
	settling bool                    // see sleep
	lastUsed time.Time               // by a request that could have woken it
	verified time.Time               // when a request was last found to be one
	started  time.Time               // also if the request has gone meanwhile
	failure  error                   // of the last start
	failedAt time.Time
	oldCRDs  error // why it has no newer ones
	deleting error // why it cannot be used, if it is being deleted
	// revision is that at which it sleeps, as a resourceVersion, if each of its watches has had
	// all events up to it; else empty.
	revision string
	watches  map[*watcher]struct{}
	serving  sync.WaitGroup // watches in the handler
	media    map[string]string
	advanced string // the last revision of advance; settle alone uses it

	// When it last went to sleep: the stored objects, and the room of its directory in bytes.
	objects, size int64
	backupDue     time.Time // while it sleeps; zero for never
	definitions   string    // a hash of those that were applied

	expiring atomic.Bool // its ControlPlane is being deleted at the end of its lifetime

	logMu  sync.Mutex
	logger *slog.Logger // see log

	// Of a former stop: the revision, and the time. It is not guarded: halt alone uses it.
	mark struct {
		revision int64
		at       time.Time
	}
}

// dir is the data directory.
func (p *plane) dir() string { return filepath.Join(p.manager.dir(), p.name) }

// journal is the directory of its journal: its own, also if there was another control plane with
// its name.
func (p *plane) journal() string { return p.name + "-" + strings.SplitN(string(p.uid), "-", 2)[0] }

// set changes the state and queues the ControlPlane, so that its status is written. It does not
// queue one that is being deleted: that would retry the deletion at once. p.mu is held.
func (p *plane) set(s state) {
	p.turn(s)
	if p.deleting == nil {
		p.manager.queue.Add(p.name)
	}
}

// turn changes the state without queueing the ControlPlane. A hold uses it: a removal that fails has
// held the control plane, and is to be tried again later, not at once. p.mu is held.
func (p *plane) turn(s state) {
	p.state = s
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// change returns what is closed at the next change of state. p.mu is held.
func (p *plane) change() <-chan struct{} {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// is reports whether the control plane is in the state.
func (p *plane) is(s state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == s
}

// use returns the handler of the running control plane, and wakes it if necessary and if the
// request may: it is asked only then. The caller calls done at the end of its request.
func (p *plane) use(ctx context.Context, mayWake func() bool) (handler *served, done func(), err error) {
	for permitted := false; ; {
		p.mu.Lock()
		switch p.state {
		case gone:
			p.mu.Unlock()
			return nil, nil, errNotFound
		case awake:
			p.requests++
			handler, uses := p.handler, time.Since(p.verified) < verifiedFor
			p.mu.Unlock()
			if !uses && mayWake() {
				uses = true
				p.mu.Lock()
				p.verified, p.lastUsed = time.Now(), time.Now()
				p.mu.Unlock()
			}
			return handler, func() { p.done(uses) }, nil
		case asleep:
			if !permitted { // the control plane may have been held, or may have stopped
				p.mu.Unlock()
				if permitted = mayWake(); !permitted {
					return nil, nil, errMayNotWake
				}
				continue
			}
			if err := p.beginWake(); err != nil {
				p.mu.Unlock()
				return nil, nil, err
			}
		}
		changed := p.change()
		p.waiting++
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		p.mu.Lock()
		p.waiting--
		p.reconsider()
		p.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
	}
}

// reconsider ends the wait of a start for room if no request waits for it, or a deletion. p.mu is held.
func (p *plane) reconsider() {
	if p.giveUp != nil && (p.waiting == 0 || p.deleting != nil) {
		p.giveUp(errUnwanted)
	}
}

// beginWake begins to wake the control plane, which is asleep. p.mu is held.
func (p *plane) beginWake() error {
	switch {
	case p.deleting != nil:
		return p.deleting
	case p.failure != nil && time.Since(p.failedAt) < failureMemory:
		return p.failure
	case !p.manager.begin(p.wake):
		return errNotRunning
	}
	p.set(waking)
	return nil
}

// verifiedFor is the time after a request that could have woken it in which others are not checked: a
// check reads keys and verifies a signature.
const verifiedFor = time.Second

// done ends a request. Those that could not have woken the control plane do not keep it awake.
func (p *plane) done(uses bool) {
	p.mu.Lock()
	p.requests--
	if uses {
		p.lastUsed = time.Now()
	}
	p.mu.Unlock()
}

// idleSince returns the time of the last request or start, and whether the control plane is
// awake without a request.
func (p *plane) idleSince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastBusy(), p.state == awake && p.requests == 0
}

// lastBusy returns the time of the last request or start. p.mu is held.
func (p *plane) lastBusy() time.Time {
	if p.started.After(p.lastUsed) {
		return p.started
	}
	return p.lastUsed
}

func (p *plane) currentSpec() Spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec
}

// sleep stops the control plane if it has been idle for the time. It reports whether it has.
func (p *plane) sleep(ctx context.Context, after time.Duration) bool {
	p.mu.Lock()
	used := p.lastUsed
	if p.settling || p.state != awake || p.requests > 0 || time.Since(p.lastBusy()) < after {
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
		switch p.state {
		case awake:
			p.revision = ""
			p.halt()
			continue
		case waking, stopping:
			changed := p.change()
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
	server, objects, backup := p.server, p.objects, p.spec.Backup
	p.set(stopping)
	p.mu.Unlock()
	if n, err := server.Objects(context.Background()); err == nil { // else the last number
		objects = n
	}
	p.compact(server)
	err := server.Stop(context.Background())
	p.serving.Wait()                     // the watches are parked, or have ended
	size, _ := datadir.TreeSize(p.dir()) // for people: what could be counted
	due := p.nextBackup(backup)
	p.mu.Lock()
	p.server, p.handler, p.objects, p.size, p.backupDue = nil, nil, objects, size, due
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
	p.forgetLog()
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
			release := p.holdLocked()
			p.mu.Unlock()
			return release, nil
		}
		changed := p.change()
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// holdLocked is hold of one that is asleep. p.mu is held.
func (p *plane) holdLocked() (release func()) {
	p.turn(waking)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.turn(asleep)
	}
}

// end makes the control plane, which the caller holds, gone, and ends its watches.
func (p *plane) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(gone)
	for x := range p.watches {
		x.cancel()
	}
}

// remove ends the control plane for good and removes its directory, after last has returned nil.
func (p *plane) remove(ctx context.Context, last func() error) error {
	p.mu.Lock()
	if p.deleting == nil {
		p.deleting = errDeleting
	}
	p.reconsider()
	p.mu.Unlock()
	release, err := p.hold(ctx)
	switch {
	case errors.Is(err, errNotFound): // last has returned nil before
	case err != nil:
		return fmt.Errorf("remove the control plane: %w", err)
	default:
		if err := last(); err != nil {
			p.mu.Lock()
			p.deleting = fmt.Errorf("%w: %w", errDeleting, err)
			p.mu.Unlock()
			release()
			return err
		}
		p.end()
	}
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
