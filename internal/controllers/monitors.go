package controllers

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// monitors is the [informerfactory.InformerFactory] of one controller over the shared
// informers. It is safe for concurrent use.
type monitors struct {
	set *informerSet
	// wrap returns the handler to add instead of the given one.
	wrap func(schema.GroupVersionResource, cache.ResourceEventHandler) cache.ResourceEventHandler

	mu      sync.Mutex
	current map[schema.GroupVersionResource]*monitor
}

// newMonitors returns the factory of one controller.
func (s *informerSet) newMonitors() *monitors {
	return &monitors{
		set: s, current: map[schema.GroupVersionResource]*monitor{},
		wrap: func(_ schema.GroupVersionResource, handler cache.ResourceEventHandler) cache.ResourceEventHandler {
			return handler
		},
	}
}

// ForResource implements [informerfactory.InformerFactory].
func (m *monitors) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	return &monitoredType{monitors: m, resource: resource}, nil
}

// monitoredType implements [informers.GenericInformer].
type monitoredType struct {
	monitors *monitors
	resource schema.GroupVersionResource
	once     sync.Once
	monitor  *monitor
}

// Informer returns the monitor of the type. The first call creates it.
func (t *monitoredType) Informer() cache.SharedIndexInformer {
	t.once.Do(func() {
		shared := t.monitors.set.acquire(t.resource)
		t.monitor = &monitor{SharedIndexInformer: shared.informer.Informer(), monitors: t.monitors, shared: shared}
	})
	return t.monitor
}

// Lister implements [informers.GenericInformer].
func (t *monitoredType) Lister() cache.GenericLister { return t.monitors.set.lister(t.resource) }

// Start implements [informerfactory.InformerFactory].
func (m *monitors) Start(stop <-chan struct{}) { m.set.Start(stop) }

// synced reports whether the handler of the type has got all objects of the first list.
func (m *monitors) synced(resource schema.GroupVersionResource) bool {
	m.mu.Lock()
	monitor := m.current[resource]
	m.mu.Unlock()
	return monitor != nil && monitor.HasSynced()
}

// begin replaces the monitor of the type. It releases the previous one: the controller has
// dropped that without running it.
func (m *monitors) begin(began *monitor) {
	m.mu.Lock()
	previous := m.current[began.shared.resource]
	m.current[began.shared.resource] = began
	m.mu.Unlock()
	if previous != nil {
		previous.release()
	}
}

// releaseAll releases the monitors that are left when the controllers have stopped: those
// that they have not run.
func (m *monitors) releaseAll() {
	m.mu.Lock()
	left := slices.Collect(maps.Values(m.current))
	m.mu.Unlock()
	for _, monitor := range left {
		monitor.release()
	}
}

// end removes the monitor, unless a newer one has replaced it.
func (m *monitors) end(ended *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current[ended.shared.resource] == ended {
		delete(m.current, ended.shared.resource)
	}
}

// monitor is the handler of one controller on the shared informer of a type. Upstream
// runs the [cache.Controller] of the informer until the type is deleted; that is a
// [kube.MonitorController].
type monitor struct {
	cache.SharedIndexInformer
	monitors *monitors
	shared   *watchedType
	released sync.Once

	mu           sync.Mutex
	registration cache.ResourceEventHandlerRegistration
}

// GetController implements [cache.SharedInformer].
func (m *monitor) GetController() cache.Controller {
	return kube.MonitorController{SharedInformer: m, Ended: m.release, Revision: m.revision}
}

// revision returns the resource version up to which the monitor has handled all changes.
func (m *monitor) revision() string {
	text := m.LastSyncResourceVersion()
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || m.monitors.set.content == nil {
		return text // of another server
	}
	return strconv.FormatInt(m.monitors.set.content.Handled(m.shared.resource.GroupResource(), revision), 10)
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer]. Upstream
// adds one handler to each monitor.
func (m *monitor) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	handler = m.monitors.wrap(m.shared.resource, handler)
	registration, err := m.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.registration = registration
	m.mu.Unlock()
	m.monitors.begin(m)
	return registration, nil
}

// HasSynced implements [cache.Controller] and [cache.SharedInformer]: it reports whether
// the handler has got all objects of the first list.
func (m *monitor) HasSynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.registration != nil && m.registration.HasSynced()
}

// release ends the use of the informer. An informer of the API server continues: it must not
// refer to controllers that have stopped.
func (m *monitor) release() {
	m.released.Do(func() {
		m.monitors.end(m)
		if m.shared.typed {
			_ = m.RemoveEventHandler(m.registration) // an error means that the informer has stopped
		}
		m.monitors.set.release(m.shared)
	})
}
