package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: what garbage collector and quota do with an informer
//
// Mirrors: k8s.io/kubernetes/pkg/controller/garbagecollector.GraphBuilder.controllerFor
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GraphBuilder.syncMonitors
//   k8s.io/kubernetes/pkg/controller/resourcequota.QuotaMonitor.controllerFor
//   k8s.io/kubernetes/pkg/controller/resourcequota.QuotaMonitor.SyncMonitors
//   k8s.io/controller-manager/pkg/informerfactory.InformerFactory
// Why: both add one handler to the informer of a type, take its controller,
//   and stop that when the type is gone. The shared factory of Kubernetes
//   never ends an informer.
// Gain: types without objects, and CRDs that were deleted, cost no informer.
// Breaks: an informer ends too early, so that owners are not followed, or
//   never.

// monitors is the [informerfactory.InformerFactory] of one controller. The
// controller's handlers on a type stay until a minute after the controller has
// let go of the type. It is safe for concurrent use.
type monitors struct {
	set *informerSet
	// wrap may put a handler in front of the controller's.
	wrap func(schema.GroupVersionResource, cache.ResourceEventHandler) cache.ResourceEventHandler

	mu      sync.Mutex
	current map[schema.GroupVersionResource]*monitor
}

// newMonitors makes the factory of one controller over the shared informers.
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

// Informer begins a new monitor of the type at the first call.
func (t *monitoredType) Informer() cache.SharedIndexInformer {
	t.once.Do(func() {
		shared := t.monitors.set.acquire(t.resource)
		t.monitor = &monitor{SharedIndexInformer: shared.informer.Informer(), monitors: t.monitors, shared: shared, resource: t.resource}
	})
	return t.monitor
}

// Lister implements [informers.GenericInformer].
func (t *monitoredType) Lister() cache.GenericLister { return t.monitors.set.lister(t.resource) }

// Start implements [informerfactory.InformerFactory].
func (m *monitors) Start(stop <-chan struct{}) { m.set.Start(stop) }

// synced says whether the controller has been given every object of the type.
func (m *monitors) synced(resource schema.GroupVersionResource) bool {
	m.mu.Lock()
	monitor := m.current[resource]
	m.mu.Unlock()
	return monitor != nil && monitor.HasSynced()
}

// begin makes the monitor that of its type.
func (m *monitors) begin(began *monitor) {
	m.mu.Lock()
	previous := m.current[began.resource]
	m.current[began.resource] = began
	m.mu.Unlock()
	if previous != nil {
		previous.release()
	}
}

// end forgets the monitor, unless there is a newer one.
func (m *monitors) end(ended *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current[ended.resource] == ended {
		delete(m.current, ended.resource)
	}
}

// monitor is one controller's handler on the shared informer of a type. Upstream
// takes a [cache.Controller] from the informer for as long as it wants the
// type, so it is that too.
type monitor struct {
	cache.SharedIndexInformer
	monitors *monitors
	shared   *watchedType
	resource schema.GroupVersionResource

	mu           sync.Mutex
	registration cache.ResourceEventHandlerRegistration
	released     bool
}

// GetController implements [cache.SharedInformer].
func (m *monitor) GetController() cache.Controller { return monitorController{m} }

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer]. Upstream
// adds one handler to each monitor.
func (m *monitor) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := m.SharedIndexInformer.AddEventHandlerWithResyncPeriod(m.monitors.wrap(m.resource, handler), period)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.registration = registration
	m.mu.Unlock()
	m.monitors.set.handle(m)
	m.monitors.begin(m)
	return registration, nil
}

// HasSynced implements [cache.Controller] and [cache.SharedInformer]: whether
// the controller has been given every object that there was at the beginning.
func (m *monitor) HasSynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.registration != nil && m.registration.HasSynced()
}

// release says that the controller does not want the type any more. The handler
// stays for a while: what has happened to the last objects may be on its way.
func (m *monitor) release() {
	m.mu.Lock()
	before := m.released
	m.released = true
	m.mu.Unlock()
	if !before {
		m.monitors.end(m)
		m.monitors.set.release(m)
	}
}

// remove ends the handler.
func (m *monitor) remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registration != nil {
		// Its error says that the informer has no such handler any more.
		_ = m.SharedIndexInformer.RemoveEventHandler(m.registration)
	}
}

// monitorController is the monitor as a [cache.Controller], which upstream runs
// for as long as it wants the type.
type monitorController struct{ *monitor }

// Run implements [cache.Controller].
func (c monitorController) Run(stop <-chan struct{}) {
	<-stop
	c.release()
}

// RunWithContext implements [cache.Controller].
func (c monitorController) RunWithContext(ctx context.Context) { c.Run(ctx.Done()) }
