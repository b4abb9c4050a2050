package controllers

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// unusedCheck is the interval of the search for informers of deleted types. One is stopped
// when the second search finds it: events of the last objects may still be queued.
const unusedCheck = 30 * time.Second

// informerSet has the informers that garbage collector and quota share: the typed
// informers of the API server, and metadata informers for all other types. Upstream's set
// never stops an informer. This one stops that of a deleted type, and replaces it when the type is
// back before: it would list the type after a growing delay only. It is safe for concurrent use.
type informerSet struct {
	ctx    context.Context // ends the informers and the requests of list
	typed  informers.SharedInformerFactory
	client metadata.Interface
	// typedStop stops the typed informers; if nil, they stop with the others. A factory
	// starts an informer only once: when the controllers start again, they use the same ones.
	typedStop <-chan struct{}
	since     func(schema.GroupVersionResource) time.Time // when the type became visible

	running sync.WaitGroup
	mu      sync.Mutex
	ended   bool // no informer starts
	watched map[schema.GroupVersionResource]*watchedType
}

// watchedType is a type and its informer.
type watchedType struct {
	informer informers.GenericInformer
	made     time.Time
	handlers int                // not removed for a newer informer of the type
	stop     context.CancelFunc // nil before the start, and for a typed informer
	unused   bool               // the last search has found that the type is not monitored
}

func newInformerSet(ctx context.Context, typed informers.SharedInformerFactory,
	client metadata.Interface) *informerSet {
	return &informerSet{ctx: ctx, typed: typed, client: client, watched: map[schema.GroupVersionResource]*watchedType{},
		since: func(schema.GroupVersionResource) time.Time { return time.Time{} }}
}

// informer returns the informer of a type for one more handler. The first call since the type is
// visible makes it.
func (s *informerSet) informer(resource schema.GroupVersionResource) *watchedType {
	if informer, err := s.typed.ForResource(resource); err == nil {
		return &watchedType{informer: informer}
	}
	since := s.since(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.watched[resource]; known != nil && !known.made.Before(since) {
		known.handlers++
		return known
	}
	informer := metadatainformer.NewFilteredMetadataInformer(s.client, resource, metav1.NamespaceAll, resyncPeriod(),
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	// These return an error only if the informer has started.
	_ = informer.Informer().SetTransform(keepForMonitors)
	_ = informer.Informer().SetWatchErrorHandlerWithContext(watchFailed)
	s.watched[resource] = &watchedType{informer: informer, made: time.Now(), handlers: 1}
	return s.watched[resource]
}

// release stops an informer whose last handler has been removed for a newer informer.
func (s *informerSet) release(watched *watchedType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if watched.handlers--; watched.handlers == 0 && watched.stop != nil {
		watched.stop()
	}
}

// list returns the metadata of the objects of a type in a namespace: from its informer if that has
// synced, otherwise from the API server.
func (s *informerSet) list(resource schema.GroupVersionResource, namespace string) ([]runtime.Object, error) {
	s.mu.Lock()
	known := s.watched[resource]
	s.mu.Unlock()
	if known != nil && known.informer.Informer().HasSynced() {
		return known.informer.Lister().ByNamespace(namespace).List(labels.Everything())
	}
	list, err := s.client.Resource(resource).Namespace(namespace).List(s.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return meta.ExtractList(list)
}

// watchFailed is a watch error handler. That a type was deleted is logged for debugging only.
func watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(1).Info("the server has a watched type no longer", "error", err)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// keepForMonitors is a [cache.TransformFunc] that drops the metadata that neither
// garbage collector nor quota reads. Annotations may be larger than the rest of an
// object.
func keepForMonitors(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetAnnotations(nil)
		accessor.SetLabels(nil)
	}
	return obj, nil
}

// start starts the informers that do not run yet.
func (s *informerSet) start(stop <-chan struct{}) {
	if s.typedStop != nil {
		stop = s.typedStop
	}
	s.typed.Start(stop)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watched := range s.watched {
		if watched.stop == nil && !s.ended {
			ctx, cancel := context.WithCancel(s.ctx)
			watched.stop = cancel
			s.running.Go(func() { watched.informer.Informer().RunWithContext(ctx) })
		}
	}
}

// run stops the informers of types that are not monitored any more. It returns when ctx and
// that of the set have ended and all informers have stopped.
func (s *informerSet) run(ctx context.Context, monitored func() map[schema.GroupVersionResource]bool) {
	ticker := time.NewTicker(unusedCheck)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			s.stopUnused(monitored())
		}
	}
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

func (s *informerSet) stopUnused(monitored map[schema.GroupVersionResource]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for resource, watched := range s.watched {
		switch {
		case monitored[resource] || watched.stop == nil:
			watched.unused = false
		case !watched.unused:
			watched.unused = true
		default:
			watched.stop()
			delete(s.watched, resource)
		}
	}
}

// monitors is the [informerfactory.InformerFactory] of one controller over the shared
// informers. It keeps the handlers of the controller, to remove them from informers that
// live longer. It is safe for concurrent use.
type monitors struct {
	set *informerSet
	// wrap returns the handler to add instead of the given one; it may be nil.
	wrap func(schema.GroupVersionResource, cache.SharedIndexInformer,
		cache.ResourceEventHandler) cache.ResourceEventHandler
	// patience bounds the wait for the first list of a type; without, the controller waits itself.
	patience time.Duration

	mu       sync.Mutex
	handlers map[schema.GroupVersionResource]addedHandler
}

// addedHandler is the handler of a controller on the informer of a type.
type addedHandler struct {
	cache.ResourceEventHandlerRegistration
	watched *watchedType
	at      time.Time
}

// remove removes the handler. An error would mean that the informer has stopped.
func (h addedHandler) remove() {
	_ = h.watched.informer.Informer().RemoveEventHandler(h.ResourceEventHandlerRegistration)
}

// ForResource implements [informerfactory.InformerFactory].
func (m *monitors) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	shared := m.set.informer(resource)
	return monitor{shared.informer, shared.informer.Informer(), m, resource, shared}, nil
}

// Start implements [informerfactory.InformerFactory].
func (m *monitors) Start(stop <-chan struct{}) { m.set.start(stop) }

// synced reports whether the type has a handler that was added since the given time, and that has
// got all objects of the first list.
func (m *monitors) synced(resource schema.GroupVersionResource, since time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	handler, known := m.handlers[resource]
	return known && !handler.at.Before(since) && handler.HasSynced()
}

// added records a handler. It removes that of an earlier monitor of the type.
func (m *monitors) added(resource schema.GroupVersionResource, handler addedHandler) {
	m.mu.Lock()
	before, known := m.handlers[resource]
	if m.handlers == nil {
		m.handlers = map[schema.GroupVersionResource]addedHandler{}
	}
	m.handlers[resource] = handler
	m.mu.Unlock()
	if known {
		before.remove()
		m.set.release(before.watched)
	}
}

// end removes the handlers. It is called when the controller has stopped.
func (m *monitors) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, handler := range m.handlers {
		handler.remove()
	}
}

// monitor is the informer of a type for one controller.
type monitor struct {
	informers.GenericInformer
	cache.SharedIndexInformer
	monitors *monitors
	resource schema.GroupVersionResource
	watched  *watchedType
}

// Informer implements [informers.GenericInformer].
func (m monitor) Informer() cache.SharedIndexInformer { return m }

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer]. Upstream adds one
// handler for each monitor.
func (m monitor) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	if wrap := m.monitors.wrap; wrap != nil {
		handler = wrap(m.resource, m.SharedIndexInformer, handler)
	}
	registration, err := m.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
	if err == nil {
		m.monitors.added(m.resource, addedHandler{registration, m.watched, time.Now()})
	}
	return registration, err
}

// GetController implements [cache.SharedInformer].
func (m monitor) GetController() cache.Controller {
	return patient{m.SharedIndexInformer.GetController(), m.monitors.patience, time.Now()}
}

// patient counts as synced after patience: one type that cannot be listed must not stop the
// controller. Usage of the type is then read from the API server, see informerSet.list.
type patient struct {
	cache.Controller
	patience time.Duration
	since    time.Time
}

// HasSynced implements [cache.Controller].
func (p patient) HasSynced() bool {
	return p.Controller.HasSynced() || p.patience > 0 && time.Since(p.since) > p.patience
}
