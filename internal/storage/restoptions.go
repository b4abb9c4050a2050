package storage

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
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
		opts.Decorator = store.Cached(g.newStore, g.storage.population.cacheStart, func(below storage.Interface,
			destroy factory.DestroyFunc, add store.AddCache) (storage.Interface, factory.DestroyFunc, error) {
			skipEmpty := func(revision int64) int64 { return g.storage.population.skipEmpty(resource, revision) }
			return g.storage.customs.add(&customStore{Interface: below, skipEmpty: skipEmpty, destroy: destroy, add: add})
		})
	}
	return opts, nil
}

// newStore makes the store of one resource over the shared client.
func (g *getter) newStore(config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object,
	resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	watcher := g.storage.connection.NewWatcher
	if !g.builtIn {
		watcher = func() clientv3.Watcher { return g.storage.customs.watcher(g.storage.connection) }
	}
	return g.newStoreWatching(watcher(), cachePage, config, newFunc, newListFunc, resourcePrefix)
}

// newStoreWatching is newStore with the watcher, which the store closes, and the size of pages.
func (g *getter) newStoreWatching(watcher clientv3.Watcher, page int64, config *storagebackend.ConfigForResource,
	newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	// A copy of the client with its own watcher and latency tracker. It shares the
	// connection and is not closed.
	s := g.storage
	own := *s.connection.Client
	own.Watcher = watcher
	// Reads are linearizable even with one member: a serializable read right after a
	// watch event may return an older object.
	own.KV, own.Lease = s.quota.guard(s.connection.gated(&pagedKV{KV: own.KV, page: page})), gatedLease{own.Lease,
		&s.connection}
	made, destroy, err := store.New(&own, s.compactor, config, newFunc, newListFunc, resourcePrefix, g.undecodable)
	if err != nil {
		return nil, nil, err
	}
	return &countedStore{withRemaining{made}, config.GroupResource, &s.objects}, func() {
		destroy()
		s.objects.last.Delete(config.GroupResource)
	}, nil
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
	made, destroy, err := g.newStoreWatching(watcher, clientPage, config, newFunc, newListFunc, resourcePrefix)
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

// cachePoll is the interval at which AwaitCaches and customStore.filled check watch caches.
const cachePoll = time.Millisecond

// watchCaches has the stores with a watch cache. It is safe for concurrent use.
type watchCaches struct {
	mu     sync.Mutex
	stores []storage.Interface
}

// withCache adds a watch cache to the store of a built-in resource.
func (c *watchCaches) withCache(_ storage.Interface, destroy factory.DestroyFunc,
	add store.AddCache) (storage.Interface, factory.DestroyFunc, error) {
	cached, stop, err := add()
	if err != nil {
		destroy()
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores = append(c.stores, cached)
	return cached, sync.OnceFunc(func() {
		stop()
		destroy()
	}), nil
}

// ready reports whether all caches have their first list.
func (c *watchCaches) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, store := range c.stores {
		if store.ReadinessCheck() != nil {
			return false
		}
	}
	return true
}

// AwaitCaches waits until the watch caches of built-in resources have been filled.
// Until then they refuse lists and watches with a 429, and informers repeat these
// only after 0.8 to 1.6 seconds (defaultBackoffInit of k8s.io/client-go/tools/cache).
// It returns an error if ctx ends before.
func (s *Storage) AwaitCaches(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, cachePoll, true, func(context.Context) (bool, error) {
		return s.caches.ready(), nil
	})
}
