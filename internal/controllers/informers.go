package controllers

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// forgetAfter is how long the handler of a controller stays after the controller
// has let go of the type.
const forgetAfter = time.Minute

// informerSet has the informers that garbage collector and quota share: typed
// informers where there are some, metadata informers for all other types.
// Upstream's set never ends an informer. Here one ends when its last handler
// has been removed.
type informerSet struct {
	typed  informers.SharedInformerFactory
	client metadata.Interface
	now    func() time.Time
	// typedStop ends the typed informers; nil means with the others. A factory
	// starts an informer once, and those that are shared with the API server must
	// serve the controllers of the next term, too.
	typedStop <-chan struct{}

	running  sync.WaitGroup
	mu       sync.Mutex
	ended    bool // nothing starts any more
	watched  map[schema.GroupVersionResource]*watchedType
	handled  map[*monitor]struct{} // those with a handler
	released []released            // in the order of their time
	wake     chan struct{}         // for run, after the first release
}

// watchedType is a type with its informer.
type watchedType struct {
	resource schema.GroupVersionResource
	informer informers.GenericInformer
	typed    bool               // the informer is the API server's too
	stop     context.CancelFunc // nil before the start
	handlers int                // that have not been removed
	wanted   int                // monitors that have not been released
	gone     atomic.Bool        // the type was not served at the last attempt
}

// released is a monitor that a controller has let go.
type released struct {
	monitor *monitor
	at      time.Time
}

func newInformerSet(typed informers.SharedInformerFactory, client metadata.Interface) *informerSet {
	return &informerSet{typed: typed, client: client, now: time.Now, watched: map[schema.GroupVersionResource]*watchedType{}, handled: map[*monitor]struct{}{}, wake: make(chan struct{}, 1)}
}

// acquire returns the informer of a type for one more monitor. An informer whose
// type was away may be in the middle of a long pause between attempts, so a new
// one takes its place.
func (s *informerSet) acquire(resource schema.GroupVersionResource) *watchedType {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.watched[resource]
	if known == nil || known.gone.Load() && known.wanted == 0 {
		known = s.newWatchedType(resource)
		s.watched[resource] = known
	}
	known.handlers++
	known.wanted++
	return known
}

// lister lists from the informer of a type, if it has synced, or else from the
// API server.
func (s *informerSet) lister(resource schema.GroupVersionResource) cache.GenericLister {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.watched[resource]; known != nil && known.informer.Informer().HasSynced() {
		return known.informer.Lister()
	}
	return liveLister{s.client.Resource(resource)}
}

func (s *informerSet) newWatchedType(resource schema.GroupVersionResource) *watchedType {
	if informer, err := s.typed.ForResource(resource); err == nil {
		informer.Informer() // registers it, so that Start starts it
		return &watchedType{resource: resource, informer: informer, typed: true}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(s.client, resource, metav1.NamespaceAll, resyncPeriod(),
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	watched := &watchedType{resource: resource, informer: informer}
	// Their errors would say that the informer has started.
	_ = informer.Informer().SetTransform(keepForMonitors)
	_ = informer.Informer().SetWatchErrorHandlerWithContext(watched.failed)
	return watched
}

// failed notes and does not log that a type is not served: it was deleted.
func (w *watchedType) failed(ctx context.Context, r *cache.Reflector, err error) {
	w.gone.Store(apierrors.IsNotFound(err))
	if !apierrors.IsNotFound(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// keepForMonitors is a [cache.TransformFunc] that drops what neither garbage
// collector nor quota reads. The annotations of an object may be larger than
// the rest of it.
func keepForMonitors(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetAnnotations(nil)
		accessor.SetLabels(nil)
	}
	return obj, nil
}

// Start implements [informerfactory.InformerFactory].
func (s *informerSet) Start(stop <-chan struct{}) {
	typedStop := stop
	if s.typedStop != nil {
		typedStop = s.typedStop
	}
	s.typed.Start(typedStop)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watched := range s.watched {
		if watched.stop == nil && !watched.typed && !s.ended {
			ctx, cancel := context.WithCancel(wait.ContextForChannel(stop))
			watched.stop = cancel
			s.running.Go(func() { watched.informer.Informer().RunWithContext(ctx) })
		}
	}
}

// holds says whether an informer has objects of the type.
func (s *informerSet) holds(resource schema.GroupVersionResource) bool {
	s.mu.Lock()
	watched := s.watched[resource]
	s.mu.Unlock()
	return watched != nil && len(watched.informer.Informer().GetStore().ListKeys()) > 0
}

// handle notes that the monitor has a handler.
func (s *informerSet) handle(m *monitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[m] = struct{}{}
}

// release removes the handler of a monitor later.
func (s *informerSet) release(m *monitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.shared.wanted--
	s.released = append(s.released, released{m, s.now()})
	select {
	case s.wake <- struct{}{}:
	default: // run looks anyway
	}
}

// run removes handlers that were released, until ctx ends, and returns when all
// informers have ended.
func (s *informerSet) run(ctx context.Context) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(s.forget())
	}
	s.mu.Lock()
	s.ended = true
	for _, watched := range s.watched {
		watched.end()
	}
	for _, r := range s.released { // their informers may have been replaced
		r.monitor.shared.end()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// forget removes handlers that were released long enough ago, ends informers
// without any, and returns when there will be more to do.
func (s *informerSet) forget() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.released) > 0 {
		first := s.released[0]
		if wait := forgetAfter - s.now().Sub(first.at); wait > 0 {
			return wait
		}
		s.released = s.released[1:]
		first.monitor.remove()
		delete(s.handled, first.monitor)
		shared := first.monitor.shared
		if shared.handlers--; shared.handlers > 0 {
			continue
		}
		shared.end()
		if s.watched[shared.resource] == shared {
			delete(s.watched, shared.resource)
		}
	}
	return never
}

// removeHandlers removes the handlers of all monitors. Informers that are the
// API server's too go on, and must not refer to controllers that have ended.
func (s *informerSet) removeHandlers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for monitor := range s.handled {
		monitor.remove()
	}
	clear(s.handled)
}

// end stops the informer, unless it is the API server's too.
func (w *watchedType) end() {
	if w.stop != nil {
		w.stop()
	}
}
