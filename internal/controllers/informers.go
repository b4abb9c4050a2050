package controllers

import (
	"context"
	"log/slog"
	"slices"
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
	"k8s.io/klog/v2"
)

// removeDelay is the time from the release of a monitor to the removal of its handler.
const removeDelay = time.Minute

// informerSet has the informers that garbage collector and quota share: the typed
// informers of the API server, informers of stored objects for custom resources, and
// metadata informers for all other types. Upstream's set never stops an informer. This one
// stops an informer when its last handler has been removed.
type informerSet struct {
	ctx    context.Context // ends the requests of listers
	typed  informers.SharedInformerFactory
	client metadata.Interface
	// follow returns the feed of a custom resource of this server, and nil for other
	// types; it may be nil.
	follow func(schema.GroupResource) (Feed, error)
	// remote reports whether an aggregated API server serves a group version; it may be
	// nil.
	remote func(schema.GroupVersion) bool
	// content knows the revisions of built-in resources; it may be nil.
	content Population
	log     *slog.Logger
	now     func() time.Time
	// typedStop stops the typed informers; if nil, they stop with the others. A factory
	// starts an informer only once: after a lost lease, the controllers of the next
	// term use the same ones.
	typedStop <-chan struct{}

	running  sync.WaitGroup
	mu       sync.Mutex
	ended    bool            // no informer starts
	stop     <-chan struct{} // of the last Start
	contexts map[<-chan struct{}]context.Context
	watched  map[schema.GroupVersionResource]*watchedType
	handled  map[*monitor]struct{} // the monitors with a handler
	released []released            // the oldest first
	wake     chan struct{}         // wakes run after a release
}

// watchedType is a type and its informer.
type watchedType struct {
	resource schema.GroupVersionResource
	informer informers.GenericInformer
	typed    bool               // the API server uses the informer, too
	remote   bool               // the informer is one of an aggregated API server
	stop     context.CancelFunc // nil before the start
	handlers int                // not removed yet
	monitors int                // not released yet
	notFound atomic.Bool        // the result of the last list or watch
}

// released is a monitor that its controller has stopped.
type released struct {
	monitor *monitor
	at      time.Time
}

func newInformerSet(ctx context.Context, typed informers.SharedInformerFactory, client metadata.Interface) *informerSet {
	return &informerSet{ctx: ctx, typed: typed, client: client, now: time.Now, contexts: map[<-chan struct{}]context.Context{}, watched: map[schema.GroupVersionResource]*watchedType{}, handled: map[*monitor]struct{}{}, wake: make(chan struct{}, 1)}
}

// acquire returns the informer of a type for one more monitor. It replaces an informer
// whose type was deleted, which may wait long before its next attempt, or is served by
// another API server.
func (s *informerSet) acquire(resource schema.GroupVersionResource) *watchedType {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.watched[resource]
	if known == nil || known.monitors == 0 && (known.notFound.Load() || s.moved(known)) {
		known = s.newWatchedType(resource)
		s.watched[resource] = known
	}
	known.handlers++
	known.monitors++
	return known
}

// lister returns a lister of the informer of a type if that has synced, otherwise a
// lister that queries the API server.
func (s *informerSet) lister(resource schema.GroupVersionResource) cache.GenericLister {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.watched[resource]; known != nil && !s.moved(known) && known.informer.Informer().HasSynced() {
		return known.informer.Lister()
	}
	return liveLister{s.ctx, s.client.Resource(resource)}
}

func (s *informerSet) newWatchedType(resource schema.GroupVersionResource) *watchedType {
	if informer, err := s.typed.ForResource(resource); err == nil {
		informer.Informer() // registers it, so that Start starts it
		return &watchedType{resource: resource, informer: informer, typed: true}
	}
	remote := s.isRemote(resource)
	if feed := s.feed(resource, remote); feed != nil {
		return &watchedType{resource: resource, informer: storedType{newStoredInformer(resource, feed, s.log)}}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(s.client, resource, metav1.NamespaceAll, resyncPeriod(),
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	watched := &watchedType{resource: resource, informer: informer, remote: remote}
	// These return an error only if the informer has started.
	_ = informer.Informer().SetTransform(keepForMonitors)
	_ = informer.Informer().SetWatchErrorHandlerWithContext(watched.failed)
	return watched
}

// isRemote reports whether an aggregated API server serves the type.
func (s *informerSet) isRemote(resource schema.GroupVersionResource) bool {
	return s.remote != nil && s.remote(resource.GroupVersion())
}

// moved reports whether the type is served by this API server instead of an aggregated
// one, or the reverse, since its informer was made. The typed informers stay as they are.
func (s *informerSet) moved(known *watchedType) bool {
	return !known.typed && known.remote != s.isRemote(known.resource)
}

// mustRelease reports whether controllers have monitors of a type that has moved.
func (s *informerSet) mustRelease(resource schema.GroupVersionResource) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.watched[resource]
	return known != nil && known.monitors > 0 && s.moved(known)
}

// feed returns the feed of a custom resource of this server, or nil.
func (s *informerSet) feed(resource schema.GroupVersionResource, remote bool) Feed {
	if s.follow == nil || remote {
		return nil
	}
	feed, err := s.follow(resource.GroupResource())
	if err != nil {
		s.log.Warn("cannot follow the objects of a type in etcd, watching them by the API", "type", resource.GroupResource().String(), "error", err)
		return nil
	}
	return feed
}

// failed is the watch error handler. That a type was deleted is logged for debugging only.
func (w *watchedType) failed(ctx context.Context, r *cache.Reflector, err error) {
	w.notFound.Store(apierrors.IsNotFound(err))
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(1).Info("the server has a watched type no longer", "type", w.resource.String(), "error", err)
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

// Start implements [informerfactory.InformerFactory].
func (s *informerSet) Start(stop <-chan struct{}) {
	typedStop := stop
	if s.typedStop != nil {
		typedStop = s.typedStop
	}
	s.typed.Start(typedStop)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = stop
	for _, watched := range s.watched {
		if watched.stop == nil && !watched.typed && !s.ended {
			ctx, cancel := context.WithCancel(s.until(stop))
			watched.stop = cancel
			s.running.Go(func() { watched.informer.Informer().RunWithContext(ctx) })
		}
	}
}

// until returns the context that ends with the channel. Each further context of a channel
// would take a goroutine for each informer. The caller holds mu.
func (s *informerSet) until(stop <-chan struct{}) context.Context {
	if s.contexts[stop] == nil {
		ctx, cancel := context.WithCancel(wait.ContextForChannel(stop))
		context.AfterFunc(ctx, cancel)
		s.contexts[stop] = ctx
	}
	return s.contexts[stop]
}

// holds reports whether an informer has objects of the type.
func (s *informerSet) holds(resource schema.GroupVersionResource) bool {
	s.mu.Lock()
	watched := s.watched[resource]
	s.mu.Unlock()
	return watched != nil && len(watched.informer.Informer().GetStore().ListKeys()) > 0
}

// handle records that the monitor has a handler.
func (s *informerSet) handle(m *monitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handled[m] = struct{}{}
}

// release schedules the removal of the handler of a monitor.
func (s *informerSet) release(m *monitor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.shared.monitors--
	s.released = append(s.released, released{m, s.now()})
	select {
	case s.wake <- struct{}{}:
	default: // run is woken already
	}
}

// takeBack undoes the release of a monitor. It returns false if the monitor has no handler
// any more; that of a type that has moved is removed.
func (s *informerSet) takeBack(m *monitor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.released, func(r released) bool { return r.monitor == m })
	if i < 0 {
		return false
	}
	s.released = slices.Delete(s.released, i, i+1)
	if s.moved(m.shared) {
		s.removeHandler(m)
		return false
	}
	m.shared.monitors++
	return true
}

// acquireAgain gives the monitor the informer that its type has now.
func (s *informerSet) acquireAgain(m *monitor) {
	shared := s.acquire(m.resource)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared, m.SharedIndexInformer = shared, shared.informer.Informer()
}

// startAgain starts the informers that were acquired since the last Start.
func (s *informerSet) startAgain() {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		s.Start(stop)
	}
}

// run removes the handlers of released monitors until ctx ends. It returns when all
// informers have stopped.
func (s *informerSet) run(ctx context.Context) {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Reset(s.removeReleased())
	}
	s.mu.Lock()
	s.ended = true
	for _, watched := range s.watched {
		watched.end()
	}
	for _, r := range s.released { // acquire may have replaced their informers
		r.monitor.shared.end()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// removeReleased removes handlers that were released removeDelay ago, stops informers
// without handlers, and returns the time to the next removal.
func (s *informerSet) removeReleased() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.released) > 0 {
		first := s.released[0]
		if wait := removeDelay - s.now().Sub(first.at); wait > 0 {
			return wait
		}
		s.released = s.released[1:]
		s.removeHandler(first.monitor)
	}
	return never
}

// removeHandler removes the handler of a monitor, and stops the informer if that was its
// last one. The caller holds mu.
func (s *informerSet) removeHandler(m *monitor) {
	m.remove()
	delete(s.handled, m)
	shared := m.shared
	if shared.handlers--; shared.handlers > 0 {
		return
	}
	shared.end()
	if s.watched[shared.resource] == shared {
		delete(s.watched, shared.resource)
	}
}

// removeHandlers removes the handlers of all monitors. The informers of the API server
// continue and must not refer to controllers that have stopped.
func (s *informerSet) removeHandlers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for monitor := range s.handled {
		monitor.remove()
	}
	clear(s.handled)
}

// end stops the informer, unless the API server uses it, too.
func (w *watchedType) end() {
	if w.stop != nil {
		w.stop()
	}
}
