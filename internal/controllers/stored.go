package controllers

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// storedRetry is the delay after a failed list.
const storedRetry = time.Second

// Feed lists and follows the metadata of the stored objects of one resource.
// [storage.Feed] implements it. It is used from one goroutine, apart from Revision.
type Feed interface {
	// List returns all objects and their revision.
	List(ctx context.Context) (objects []*metav1.PartialObjectMetadata, revision int64, err error)
	// Next waits for changes after the list. The object of a deletion has a namespace,
	// a name and a resource version. After an error, the caller lists again.
	Next(ctx context.Context) ([]watch.Event, error)
	// Revision returns a revision of which the caller has handled all changes.
	Revision() int64
	// Close ends the feed.
	Close()
}

// storedInformer is a [cache.SharedIndexInformer] of the objects of a custom resource
// over a [Feed]. It takes one goroutine: handlers are called from it and must not block.
// Those of the garbage collector and the quota controller fill queues. There is no resync,
// for which neither has a use. It is safe for concurrent use.
type storedInformer struct {
	cache.SharedIndexInformer // not run; it has the indexer

	resource schema.GroupVersionResource
	feed     Feed
	log      *slog.Logger
	retry    time.Duration // see storedRetry
	indexer  cache.Indexer
	synced   chan struct{} // closed after the first list
	listed   atomic.Bool
	stopped  atomic.Bool

	turn sync.Mutex // held while handlers are called, so that each gets all events in order

	// mu is not held while handlers are called: they may need locks that the caller of
	// RemoveEventHandler holds.
	mu       sync.Mutex
	handlers []*storedHandler // not changed, but replaced
}

var _ cache.SharedIndexInformer = (*storedInformer)(nil)

func newStoredInformer(resource schema.GroupVersionResource, feed Feed, log *slog.Logger) *storedInformer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	unused := cache.NewSharedIndexInformer(nil, &metav1.PartialObjectMetadata{}, 0, indexers)
	return &storedInformer{
		SharedIndexInformer: unused, indexer: unused.GetIndexer(),
		resource: resource, feed: feed, log: log, retry: storedRetry, synced: make(chan struct{}),
	}
}

// storedHandler is a handler and its registration.
type storedHandler struct {
	cache.ResourceEventHandler
	informer *storedInformer
	synced   chan struct{} // closed when the handler has got the first list
}

// HasSynced implements [cache.ResourceEventHandlerRegistration].
func (h *storedHandler) HasSynced() bool { return cache.IsDone(h.HasSyncedChecker()) }

// HasSyncedChecker implements [cache.ResourceEventHandlerRegistration].
func (h *storedHandler) HasSyncedChecker() cache.DoneChecker {
	return storedChecker{h.informer.resource.String() + " handler", h.synced}
}

// storedChecker is a [cache.DoneChecker].
type storedChecker struct {
	name string
	done <-chan struct{}
}

// Name implements [cache.DoneChecker].
func (c storedChecker) Name() string { return c.name }

// Done implements [cache.DoneChecker].
func (c storedChecker) Done() <-chan struct{} { return c.done }

// RunWithContext implements [cache.SharedInformer].
func (i *storedInformer) RunWithContext(ctx context.Context) {
	defer i.stopped.Store(true)
	defer i.feed.Close()
	var logged logging.Changes // failures, until a list succeeds
	resource := i.resource.GroupResource().String()
	for ctx.Err() == nil {
		listed, err := i.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if listed {
			logged.Forget(resource) // changes were missed: the storage logs it once for all types
		} else if logged.Changed(resource, err.Error()) {
			i.log.Warn("reading the objects of a type from etcd failed, trying again: the garbage collector and quotas "+
				"miss their changes", "type", resource, "error", err)
		}
		reconcile.Pause(ctx, i.retry)
	}
}

// follow lists the objects and handles their changes until some were missed or ctx
// ends. It reports whether the list succeeded.
func (i *storedInformer) follow(ctx context.Context) (listed bool, err error) {
	objects, revision, err := i.feed.List(ctx)
	if err != nil {
		return false, err
	}
	i.replace(objects, revision)
	for {
		changes, err := i.feed.Next(ctx)
		if err != nil {
			return true, err
		}
		i.changeAll(changes)
	}
}

func (i *storedInformer) changeAll(changes []watch.Event) {
	i.turn.Lock()
	defer i.turn.Unlock()
	for _, change := range changes {
		if object, ok := change.Object.(*metav1.PartialObjectMetadata); ok {
			i.change(change.Type, object)
		}
	}
}

// replace makes the listed objects those of the informer.
func (i *storedInformer) replace(objects []*metav1.PartialObjectMetadata, revision int64) {
	i.turn.Lock()
	defer i.turn.Unlock()
	gone := map[string]bool{}
	for _, key := range i.indexer.ListKeys() {
		gone[key] = true
	}
	for _, object := range objects {
		delete(gone, cache.MetaObjectToName(object).String())
		i.change(watch.Modified, object)
	}
	for key := range gone {
		if known, exists, _ := i.indexer.GetByKey(key); exists { // an indexer in memory returns no error
			deleted := known.(*metav1.PartialObjectMetadata).DeepCopy()
			deleted.ResourceVersion = strconv.FormatInt(revision, 10)
			i.change(watch.Deleted, deleted)
		}
	}
	if !i.listed.Swap(true) {
		close(i.synced)
		for _, handler := range i.current() {
			close(handler.synced)
		}
	}
}

// current returns the handlers.
func (i *storedInformer) current() []*storedHandler {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.handlers
}

// change applies a change and calls the handlers. The caller holds turn.
func (i *storedInformer) change(kind watch.EventType, object *metav1.PartialObjectMetadata) {
	known, exists, _ := i.indexer.Get(object) // an indexer in memory returns no error
	switch {
	case kind == watch.Deleted && exists:
		deleted := known.(*metav1.PartialObjectMetadata).DeepCopy()
		deleted.ResourceVersion = object.ResourceVersion
		_ = i.indexer.Delete(deleted)
		for _, handler := range i.current() {
			handler.OnDelete(deleted)
		}
	case kind == watch.Deleted:
	case !exists:
		_ = i.indexer.Add(object)
		for _, handler := range i.current() {
			handler.OnAdd(object, !i.listed.Load())
		}
	case known.(*metav1.PartialObjectMetadata).UID != object.UID:
		// It was deleted and created again between two lists.
		i.change(watch.Deleted, object)
		i.change(watch.Added, object)
	case known.(*metav1.PartialObjectMetadata).ResourceVersion != object.ResourceVersion:
		_ = i.indexer.Update(object)
		for _, handler := range i.current() {
			handler.OnUpdate(known, object)
		}
	}
}

// AddEventHandler implements [cache.SharedInformer]. The handler gets the objects that
// are known before it returns.
func (i *storedInformer) AddEventHandler(handler cache.ResourceEventHandler) (
	cache.ResourceEventHandlerRegistration, error) {
	if i.stopped.Load() {
		return nil, errors.New("the informer of " + i.resource.String() + " has stopped")
	}
	added := &storedHandler{ResourceEventHandler: handler, informer: i, synced: make(chan struct{})}
	i.turn.Lock()
	defer i.turn.Unlock()
	for _, object := range i.indexer.List() {
		added.OnAdd(object, true)
	}
	i.mu.Lock()
	i.handlers = append(slices.Clone(i.handlers), added)
	i.mu.Unlock()
	if i.listed.Load() {
		close(added.synced)
	}
	return added, nil
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer], without resync.
func (i *storedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	_ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions implements [cache.SharedInformer], without resync.
func (i *storedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler,
	_ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler implements [cache.SharedInformer].
func (i *storedInformer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers),
		func(handler *storedHandler) bool { return handler == registration })
	return nil
}

// Run implements [cache.SharedInformer].
func (i *storedInformer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// HasSynced implements [cache.SharedInformer].
func (i *storedInformer) HasSynced() bool { return i.listed.Load() }

// HasSyncedChecker implements [cache.SharedInformer].
func (i *storedInformer) HasSyncedChecker() cache.DoneChecker {
	return storedChecker{i.resource.String(), i.synced}
}

// LastSyncResourceVersion implements [cache.SharedInformer].
func (i *storedInformer) LastSyncResourceVersion() string {
	return strconv.FormatInt(i.feed.Revision(), 10)
}

// IsStopped implements [cache.SharedInformer].
func (i *storedInformer) IsStopped() bool { return i.stopped.Load() }

// storedType is a storedInformer as an [informers.GenericInformer].
type storedType struct{ informer *storedInformer }

// Informer implements [informers.GenericInformer].
func (t storedType) Informer() cache.SharedIndexInformer { return t.informer }

// Lister implements [informers.GenericInformer].
func (t storedType) Lister() cache.GenericLister {
	return cache.NewGenericLister(t.informer.indexer, t.informer.resource.GroupResource())
}
