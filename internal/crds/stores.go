package crds

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// newStores returns the getter over upstream's.
func newStores(upstream genericregistry.RESTOptionsGetter) *stores {
	return &stores{RESTOptionsGetter: upstream, open: map[*lazyStore]flowcontrolrequest.StorageObjectCountTracker{}, opened: make(chan struct{}, 1)}
}

// stores is the RESTOptionsGetter for custom resources. It records the stores that it
// has opened. Upstream's handler closes its stores at shutdown by a method that is not
// exported (crdHandler.destroy); closeAll replaces it.
type stores struct {
	genericregistry.RESTOptionsGetter

	mu     sync.Mutex
	open   map[*lazyStore]flowcontrolrequest.StorageObjectCountTracker
	opened chan struct{} // wakes count
}

// GetRESTOptions implements [genericregistry.RESTOptionsGetter].
func (s *stores) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (genericregistry.RESTOptions, error) {
	options, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	options.CountMetricPollPeriod = 0 // count does it
	inner := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		store := &lazyStore{resource: resource, open: func() (storage.Interface, factory.DestroyFunc, error) {
			defer s.wakeCount()
			return inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		}}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open[store] = options.StorageObjectCountTracker
		return readyStore{store}, func() { s.forget(store) }, nil
	}
	return options, nil
}

// forget closes a store.
func (s *stores) forget(store *lazyStore) {
	s.mu.Lock()
	delete(s.open, store)
	last := true
	for other := range s.open {
		last = last && other.resource != store.resource
	}
	s.mu.Unlock()
	store.close()
	if last {
		metrics.DeleteStoreStats(store.resource)
	}
}

// closeAll closes what is still open.
func (s *stores) closeAll() {
	s.mu.Lock()
	open := slices.Collect(maps.Keys(s.open))
	clear(s.open)
	s.mu.Unlock()
	for _, store := range open {
		store.close()
	}
}

const (
	// readyTimeout bounds how long a list or a watch waits for a watch cache to fill.
	readyTimeout = 10 * time.Second
	// pageTimeout is the same for the first page of a list that is read from etcd
	// meanwhile. The cache begins with an earlier revision then: it refuses watches from
	// revisions before its own.
	pageTimeout = 100 * time.Millisecond
	// readyPoll is the interval of the checks.
	readyPoll = time.Millisecond
)

// readyStore delays lists and watches until the watch cache below has been filled,
// which takes milliseconds for a small type at its first request. Until then the cache
// refuses them with "storage is (re)initializing", a 429 (CacheDelegator of
// k8s.io/apiserver/pkg/storage/cacher), and reads single objects and pages of lists
// from etcd.
type readyStore struct{ storage.Interface }

// GetList implements [storage.Interface].
func (r readyStore) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	switch {
	case !store.ReadsUnfilled(options):
		r.wait(ctx, readyTimeout)
	case options.Predicate.Continue == "": // the next pages have the revision of the first one
		r.wait(ctx, pageTimeout)
	}
	return r.Interface.GetList(ctx, key, options, list)
}

// Watch implements [storage.Interface].
func (r readyStore) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	r.wait(ctx, readyTimeout)
	return r.Interface.Watch(ctx, key, options)
}

// wait returns when the store is ready, or closed, or after the timeout; the store then
// answers that it is not ready or closed.
func (r readyStore) wait(ctx context.Context, timeout time.Duration) {
	if !r.filling() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for r.filling() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// filling reports whether the watch cache is not filled yet. A store that is closed or
// cannot be opened returns other errors.
func (r readyStore) filling() bool {
	return store.IsFilling(r.Interface)
}
