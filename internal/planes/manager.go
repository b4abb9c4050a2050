package planes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/client-go/dynamic"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// startsAtOnce is the number of control planes that start at the same time. A start uses
// about one processor.
const startsAtOnce = 2

// roomOfStart is the free space of the disk, in bytes, below which none starts: etcd ends the process when it
// cannot write. It is more than a few starts write, and less than what is reserved from writes: a control
// plane that sleeps can be read on a disk that is nearly full.
const roomOfStart = 16 << 20

// failureMemory is how long requests to a control plane that does not start get its error
// before the next one tries again.
const failureMemory = 5 * time.Second

// maxRetry is the longest time until a ControlPlane that cannot be made or removed is tried again.
const maxRetry = 10 * time.Second

// Config configures a [Manager].
type Config struct {
	// Host is the configuration of the host, with its data directory. The control planes have
	// its limits, and its feature gates, which are global to the process.
	Host *config.ServerConfiguration
	// URL returns the URL of the host for clients, once it is ready.
	URL func() string
	Log *slog.Logger
}

// Manager runs the control planes of one host. It is safe for concurrent use.
type Manager struct {
	config         Config
	host           http.Handler  // of the host, set before it serves
	audit          audit.Backend // of the host, or nil; set with host
	administrators *administrators
	starts         chan struct{}           // a token for each start under way
	queue          *reconcile.Loop[string] // of ControlPlanes, by name; set by run before there is a plane
	work           sync.WaitGroup          // starts and stops under way
	contests       contests
	warnedOfDisk   sync.Map // the fields of which it has
	disk           func(dir string) (free, total int64, err error)

	mu      sync.Mutex
	planes  map[string]*plane
	failed  map[string]error  // why a ControlPlane without a plane has none, by name
	running context.Context   // of the controller; nil before and after it
	objects dynamic.Interface // of the host, set before running
	awake   int               // control planes in memory
	freed   chan struct{}     // closed when awake falls, or a request ends
}

// New returns a manager. It does nothing before its host runs.
func New(config Config) *Manager {
	m := &Manager{
		config: config, starts: make(chan struct{}, startsAtOnce), planes: map[string]*plane{}, failed: map[string]error{},
		freed: make(chan struct{}), disk: datadir.DiskSpace,
	}
	m.administrators = newAdministrators(m)
	return m
}

// Extend adds to the options of the host, which have its configuration and no Middleware, what
// serves and runs the control planes.
func (m *Manager) Extend(o *controlplane.Options) {
	o.Config = hostConfiguration(o.Config)
	o.Resources = append(o.Resources, kind(m.config.Host))
	o.Admission = append(o.Admission, controlplane.Admission{Name: "planes",
		Operations: []admission.Operation{admission.Create, admission.Update}, Mutate: addFinalizer})
	o.Controllers = append(o.Controllers, controlplane.Controller{Name: "planes", Run: m.run})
	o.Access = m.administrators.use
	o.Audit = func(configured audit.Backend) audit.Backend {
		m.audit = configured
		return configured
	}
	o.Middleware = func(next http.Handler) http.Handler {
		m.host = next
		return http.HandlerFunc(m.serve)
	}
}

// URL returns the URL of a control plane of the server; that of the server for an empty name.
func URL(server, plane string) string {
	if plane == "" {
		return server
	}
	return strings.TrimSuffix(server, "/") + prefix + plane
}

// dir has a directory for each control plane.
func (m *Manager) dir() string { return Dir(m.config.Host.DataDir, "") }

// plane returns a control plane by its name.
func (m *Manager) plane(name string) (*plane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == nil {
		return nil, errNotRunning
	}
	if p := m.planes[name]; p != nil {
		return p, nil
	}
	if reason := m.failed[name]; reason != nil {
		return nil, fmt.Errorf("%w: %w", errNotMade, reason)
	}
	return nil, errNotFound
}

// fail notes why a ControlPlane has no plane; nil forgets it.
func (m *Manager) fail(name string, reason error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if reason == nil {
		delete(m.failed, name)
		return
	}
	m.failed[name] = reason
}

// failureOf returns the text of why a ControlPlane has no plane.
func (m *Manager) failureOf(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if reason := m.failed[name]; reason != nil {
		return reason.Error()
	}
	return ""
}

var (
	errNotRunning = errors.New("the server starts or stops: its control planes cannot be used now")
	errNotFound   = errors.New("there is no such control plane")
	errNotMade    = errors.New("it is not made yet")
	errMayNotWake = errors.New("the control plane sleeps; a request with credentials that are valid in it wakes it")
	errUnwanted   = errors.New("no request waits for its start any more")
	errDeleting   = errors.New("it is being deleted")
)

// list returns all control planes.
func (m *Manager) list() []*plane {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.planes))
}

// takeRoom waits until one more control plane may be in memory, while it is wanted. It puts the one that
// was used longest ago, and has no request, to sleep.
func (m *Manager) takeRoom(ctx, wanted context.Context) error {
	for wanted.Err() == nil {
		full := m.exceedsLimits()
		m.mu.Lock()
		if m.awake < m.config.Host.Planes.MaxAwake && !full {
			m.awake++
			m.mu.Unlock()
			return nil
		}
		freed := m.freed
		m.mu.Unlock()
		if m.sleepLeastRecentlyUsed(ctx, true) {
			continue
		}
		select {
		case <-freed:
		case <-time.After(time.Second): // one may have become idle
		case <-wanted.Done():
		}
	}
	return context.Cause(wanted)
}

// leastRecentlyUsed returns the idle one that was used longest ago, or nil.
func (m *Manager) leastRecentlyUsed() *plane {
	var oldest *plane
	var since time.Time
	for _, p := range m.list() {
		if used, idle := p.idleSince(); idle && (oldest == nil || used.Before(since)) {
			oldest, since = p, used
		}
	}
	return oldest
}

// giveRoom undoes takeRoom.
func (m *Manager) giveRoom() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.awake--
	close(m.freed) // takeRoom looks again
	m.freed = make(chan struct{})
}

// begin calls f in a goroutine that the end of the controller waits for. It returns false if
// the controller does not run.
func (m *Manager) begin(f func(ctx context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == nil {
		return false
	}
	ctx := m.running
	m.work.Go(func() { f(ctx) })
	return true
}

// stop stops all control planes and waits until they have stopped.
func (m *Manager) stop() {
	m.mu.Lock()
	m.running = nil
	m.mu.Unlock()
	var stops sync.WaitGroup
	for _, p := range m.list() {
		stops.Go(p.shut)
	}
	stops.Wait()
	m.work.Wait()
}
