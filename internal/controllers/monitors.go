package controllers

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// monitors is the [informerfactory.InformerFactory] of one controller. The handler of a
// type is removed removeDelay after the controller has stopped its monitor. It is safe
// for concurrent use.
type monitors struct {
	set *informerSet
	// wrap returns the handler to add instead of the given one.
	wrap func(schema.GroupVersionResource, cache.ResourceEventHandler) cache.ResourceEventHandler

	mu      sync.Mutex
	current map[schema.GroupVersionResource]*monitor
	waiting map[*monitor]struct{} // have a handler and were not run yet
}

// newMonitors returns the factory of one controller over the shared informers.
func (s *informerSet) newMonitors() *monitors {
	return &monitors{
		set: s, current: map[schema.GroupVersionResource]*monitor{}, waiting: map[*monitor]struct{}{},
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

// begin replaces the monitor of the type by began, and releases the previous one.
func (m *monitors) begin(began *monitor) {
	m.mu.Lock()
	previous := m.current[began.resource]
	m.current[began.resource] = began
	if !began.ran {
		m.waiting[began] = struct{}{}
	}
	m.mu.Unlock()
	if previous != nil {
		previous.release()
	}
}

// releaseUnlisted releases the monitors that were not run of types that are not
// listed any more: the controller may have dropped them, or will run them when
// their types are back.
func (m *monitors) releaseUnlisted(lists []*metav1.APIResourceList) {
	listed := resourcesOf(lists)
	m.mu.Lock()
	var unlisted []*monitor
	for waiting := range m.waiting {
		if !listed[waiting.resource] {
			unlisted = append(unlisted, waiting)
		}
	}
	m.mu.Unlock()
	for _, waiting := range unlisted {
		waiting.releaseUnlessRan()
	}
}

// ran notes that the monitor is run.
func (m *monitors) ran(monitor *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, monitor)
}

// end removes the monitor, unless a newer one has replaced it.
func (m *monitors) end(ended *monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, ended)
	if m.current[ended.resource] == ended {
		delete(m.current, ended.resource)
	}
}

// monitor is the handler of one controller on the shared informer of a type. Upstream
// runs the [cache.Controller] of the informer while it monitors the type; that is a
// [kube.MonitorController].
type monitor struct {
	cache.SharedIndexInformer
	monitors *monitors
	shared   *watchedType
	resource schema.GroupVersionResource

	handler cache.ResourceEventHandler // the controller's
	period  time.Duration

	turn     sync.Mutex // held while the monitor is run or released; taken before other locks
	ran      bool
	released bool

	mu           sync.Mutex
	registration cache.ResourceEventHandlerRegistration
}

// GetController implements [cache.SharedInformer].
func (m *monitor) GetController() cache.Controller {
	return kube.MonitorController{SharedInformer: m, Began: m.run, Ended: m.release, Revision: m.revision}
}

// revision returns the resource version up to which the monitor has handled all changes.
func (m *monitor) revision() string {
	m.mu.Lock()
	informer := m.SharedIndexInformer // acquireAgain may replace it
	m.mu.Unlock()
	text := informer.LastSyncResourceVersion()
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || m.monitors.set.content == nil {
		return text // of another server
	}
	return strconv.FormatInt(m.monitors.set.content.Handled(m.resource.GroupResource(), revision), 10)
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer]. Upstream
// adds one handler to each monitor.
func (m *monitor) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	m.handler, m.period = handler, period
	registration, err := m.addHandler()
	if err != nil {
		return nil, err
	}
	m.monitors.begin(m)
	return registration, nil
}

func (m *monitor) addHandler() (cache.ResourceEventHandlerRegistration, error) {
	registration, err := m.SharedIndexInformer.AddEventHandlerWithResyncPeriod(m.monitors.wrap(m.resource, m.handler), m.period)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.registration = registration
	m.mu.Unlock()
	m.monitors.set.handle(m)
	return registration, nil
}

// run is called when the controller runs the monitor. It takes back an earlier
// release. If the handler was removed meanwhile, it is added again, to the informer
// that the type has now. A monitor that was stopped before must not replace the one
// that the controller has made since.
func (m *monitor) run(stop <-chan struct{}) {
	m.turn.Lock()
	defer m.turn.Unlock()
	select {
	case <-stop:
		return
	default:
	}
	m.ran = true
	m.monitors.ran(m)
	if !m.released {
		return
	}
	m.released = false
	if !m.monitors.set.takeBack(m) {
		m.monitors.set.acquireAgain(m)
		// The error means that the informer has ended, and with it the controller.
		_, _ = m.addHandler()
		m.monitors.set.startAgain()
	}
	m.monitors.begin(m)
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
	m.turn.Lock()
	defer m.turn.Unlock()
	m.releaseLocked()
}

// releaseUnlessRan releases a monitor that the controller has not run.
func (m *monitor) releaseUnlessRan() {
	m.turn.Lock()
	defer m.turn.Unlock()
	if !m.ran {
		m.releaseLocked()
	}
}

// releaseLocked is called with turn held.
func (m *monitor) releaseLocked() {
	if m.released {
		return
	}
	m.released = true
	m.monitors.end(m)
	m.monitors.set.release(m)
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
