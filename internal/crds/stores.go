package crds

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: the handler of custom resources closes its stores
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.destroy
//   k8s.io/apiextensions-apiserver/pkg/apiserver.crdHandler.tearDown
// Why: the method that closes them at the shutdown is not exported.
// Gain: a stop leaves no watch on etcd.
// Breaks: a stop waits for watches of custom resources.

// stores is the RESTOptionsGetter for custom resources. It records the stores that it
// has opened. Upstream's handler closes its stores at shutdown by a method that is not
// exported (crdHandler.destroy); closeAll replaces it.
type stores struct {
	genericregistry.RESTOptionsGetter

	mu   sync.Mutex
	next int
	open map[int]factory.DestroyFunc
}

// GetRESTOptions implements [genericregistry.RESTOptionsGetter].
func (s *stores) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (genericregistry.RESTOptions, error) {
	options, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	inner := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		if err != nil {
			return nil, nil, err
		}
		return readyStore{store}, s.remember(destroy), nil
	}
	return options, nil
}

func (s *stores) remember(destroy factory.DestroyFunc) factory.DestroyFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[int]factory.DestroyFunc{}
	}
	s.next++
	number := s.next
	s.open[number] = destroy
	return func() {
		s.mu.Lock()
		delete(s.open, number)
		s.mu.Unlock()
		destroy()
	}
}

// closeAll closes what is still open.
func (s *stores) closeAll() {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for _, destroy := range open {
		destroy()
	}
}

// Upstream fact: a watch cache that is not filled refuses lists and watches
//
// Mirrors: k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.GetList
//   k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.Watch
//   k8s.io/apiserver/pkg/storage/cacher.shouldDelegateListOnNotReadyCache
//   k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.ReadinessCheck
// Why: the cache of a type is made at its first request, which would get a 429.
// Gain: a type can be listed and watched when its creation is answered.
// Breaks: the first list or watch of a type gets a 429 and is repeated after a
//   second.

const (
	// readyTimeout bounds how long a list or a watch waits for a watch cache to fill.
	readyTimeout = 10 * time.Second
	// readyPoll is the interval of the checks.
	readyPoll = time.Millisecond
)

// readyStore delays lists and watches until the watch cache below has been filled,
// which takes milliseconds for a small type at its first request. Until then the cache
// refuses them with "storage is (re)initializing", a 429 (CacheDelegator of
// k8s.io/apiserver/pkg/storage/cacher), and reads single objects from etcd.
type readyStore struct{ storage.Interface }

// GetList implements [storage.Interface].
func (r readyStore) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	r.wait(ctx)
	return r.Interface.GetList(ctx, key, options, list)
}

// Watch implements [storage.Interface].
func (r readyStore) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	r.wait(ctx)
	return r.Interface.Watch(ctx, key, options)
}

// wait returns when the store is ready or after readyTimeout; the store then answers
// that it is not.
func (r readyStore) wait(ctx context.Context) {
	if r.ReadinessCheck() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for r.ReadinessCheck() != nil {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
