package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: how garbage collector and quota use an informer
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
// Breaks: an informer stops too early, so that dependents are not collected, or
//   never.

// monitors is the [informerfactory.InformerFactory] of one controller. The handler of a
// type is removed removeDelay after the controller has stopped its monitor. It is safe
// for concurrent use.
type monitors struct {
	set *informerSet
	// wrap returns the handler to add instead of the given one.
	wrap func(schema.GroupVersionResource, cache.ResourceEventHandler) cache.ResourceEventHandler

	mu      sync.Mutex
	current map[schema.GroupVersionResource]*monitor
}

// newMonitors returns the factory of one controller over the shared informers.
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
		t.monitor = &monitor{SharedIndexInformer: shared.informer.Informer(), monitors: t.monitors, shared: shared, resource: t.resource}
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

// begin makes began the monitor of its type and releases the previous one.
func (m *monitors) begin(began *monitor) {
	m.mu.Lock()
	previous := m.current[began.resource]
	m.current[began.resource] = began
	m.mu.Unlock()
	if previous != nil {
		previous.release()
	}
}

// end removes the monitor, unless a newer one has replaced it.
func (m *monitors) end(ended *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current[ended.resource] == ended {
		delete(m.current, ended.resource)
	}
}

// monitor is the handler of one controller on the shared informer of a type. Upstream
// runs the [cache.Controller] of the informer while it monitors the type; that is
// monitorController.
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

// HasSynced implements [cache.Controller] and [cache.SharedInformer]: it reports whether
// the handler has got all objects of the first list.
func (m *monitor) HasSynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.registration != nil && m.registration.HasSynced()
}

// release stops the monitor. Its handler is removed later: events of the last objects
// may still be queued.
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

// remove removes the handler.
func (m *monitor) remove() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registration != nil {
		// An error means that the handler was removed before.
		_ = m.SharedIndexInformer.RemoveEventHandler(m.registration)
	}
}

// monitorController is a monitor as the [cache.Controller] that upstream runs while it
// monitors the type.
type monitorController struct{ *monitor }

// Run implements [cache.Controller].
func (c monitorController) Run(stop <-chan struct{}) {
	<-stop
	c.release()
}

// RunWithContext implements [cache.Controller].
func (c monitorController) RunWithContext(ctx context.Context) { c.Run(ctx.Done()) }
