package storage

import (
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// CachePolicy reports whether a resource has a watch cache.
type CachePolicy func(schema.GroupResource) bool

// RESTOptionsGetter wraps upstream's getter: it returns the same options with a decorator
// that uses the shared client.
func (s *Storage) RESTOptionsGetter(upstream generic.RESTOptionsGetter, cached CachePolicy) generic.RESTOptionsGetter {
	getter := s.newGetter(upstream, cached)
	getter.builtIn = true
	return getter
}

func (s *Storage) newGetter(upstream generic.RESTOptionsGetter, cached CachePolicy) *getter {
	store.TakeMonitors()
	return &getter{upstream: upstream, storage: s, cached: cached}
}

// CustomResourceGetter is RESTOptionsGetter for custom resources. It returns an error if
// their key prefixes differ from those that [Storage.HasObjects] uses for resources that
// were not served yet.
func (s *Storage) CustomResourceGetter(upstream generic.RESTOptionsGetter,
	cached CachePolicy) (generic.RESTOptionsGetter, error) {
	if err := store.CheckCustomResourcePrefix(upstream); err != nil {
		return nil, err
	}
	return s.newGetter(upstream, cached), nil
}

type getter struct {
	upstream generic.RESTOptionsGetter
	storage  *Storage
	cached   CachePolicy
	builtIn  bool // the resources are built-in ones
}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (g *getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.upstream.GetRESTOptions(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	g.storage.recordPrefix(resource, opts.ResourcePrefix)
	switch {
	case !g.cached(resource):
		opts.Decorator = store.Uncached(g.newPromptStore)
	case g.builtIn:
		opts.Decorator = store.Cached(g.newStore, nil, g.storage.caches.withCache)
	default:
		opts.Decorator = store.Cached(g.newStore, g.storage.population.cacheStart, g.storage.customs.withCacheOnUse)
	}
	return opts, nil
}

// newStore makes the store of one resource over the shared client.
func (g *getter) newStore(config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object,
	resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	return g.newStoreWatching(g.storage.connection.NewWatcher(), config, newFunc, newListFunc, resourcePrefix)
}

// newStoreWatching is newStore with the watcher, which the store closes.
func (g *getter) newStoreWatching(watcher clientv3.Watcher, config *storagebackend.ConfigForResource,
	newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	// A copy of the client with its own watcher and latency tracker. It shares the
	// connection and is not closed.
	s := g.storage
	own := *s.connection.Client
	own.Watcher = watcher
	// Reads are linearizable even with one member: a serializable read right after a
	// watch event may return an older object.
	own.KV, own.Lease = s.quota.guard(s.connection.gated(&pagedKV{KV: own.KV, page: storePage})), gatedLease{own.Lease,
		&s.connection}
	return store.New(&own, s.compactor, config, newFunc, newListFunc, resourcePrefix, g.undecodable)
}

// newPromptStore is newStore for a resource without a watch cache. The built-in ones share a
// watch stream, which takes 9 goroutines and 50 kB.
func (g *getter) newPromptStore(config *storagebackend.ConfigForResource, newFunc,
	newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	var watcher clientv3.Watcher = sharedWatcher{g.storage.watcher}
	requests := &g.storage.progress
	if !g.builtIn {
		watcher, requests = g.storage.connection.NewWatcher(), &progressRequests{}
	}
	made, destroy, err := g.newStoreWatching(watcher, config, newFunc, newListFunc, resourcePrefix)
	if err != nil {
		return nil, nil, err
	}
	return &promptWatches{made, requests}, destroy, nil
}

// sharedWatcher is the watcher of several stores, of which none closes it.
type sharedWatcher struct{ clientv3.Watcher }

// Close implements [clientv3.Watcher].
func (sharedWatcher) Close() error { return nil }

// undecodable records a damaged object. The decoding of custom resources may call a webhook,
// whose failure is no damage.
func (g *getter) undecodable(key string, err error) {
	if g.builtIn {
		g.storage.damaged.Store(&damagedObject{key, err})
	}
}
