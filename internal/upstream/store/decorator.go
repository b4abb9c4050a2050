package store

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: how a watch cache is put above a store
//
// Mirrors: k8s.io/apiserver/pkg/registry/generic/registry.StorageWithCacher
//   k8s.io/apiserver/pkg/registry/generic.UndecoratedStorage
//   k8s.io/apiserver/pkg/storage/cacher.Config
// Why: the decorators of Kubernetes call the factory that dials etcd.
// Gain: see the fact about the store of one resource.
// Breaks: watch caches lack a setting that kube-apiserver gives to its own.
//   TestReadsSeeWatchedWrites fails.

// Raw makes the store of a resource; [New] does.
type Raw func(config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object,
	resourcePrefix string) (storage.Interface, factory.DestroyFunc, error)

// Uncached is the decorator that adds nothing.
func Uncached(raw Raw) generic.StorageDecorator {
	return func(config *storagebackend.ConfigForResource, resourcePrefix string, _ func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return raw(config, newFunc, newListFunc, resourcePrefix)
	}
}

// AddCache makes the watch cache of a store. stop ends it.
type AddCache func() (cached storage.Interface, stop func(), err error)

// Cached is the decorator for stores with a watch cache. combine makes the result from a store
// without one. A cache calls start before its first list; without start, which may be nil, it
// lists the objects.
func Cached(raw Raw, start CacheStart, combine func(below storage.Interface, destroy factory.DestroyFunc,
	add AddCache) (storage.Interface, factory.DestroyFunc, error)) generic.StorageDecorator {
	return func(config *storagebackend.ConfigForResource, resourcePrefix string,
		keyFunc func(runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, getAttrs storage.AttrFunc,
		triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		history, sized := &sizedHistory{Transformer: TransformerOf(config)}, *config
		sized.Transformer = history
		below, destroy, err := raw(&sized, newFunc, newListFunc, resourcePrefix)
		if err != nil {
			return nil, nil, err
		}
		return combine(below, destroy, func() (storage.Interface, func(), error) {
			listed := withEmptyFirstList(below, config.GroupResource, start)
			watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
				Storage:             listed,
				Versioner:           storage.APIObjectVersioner{},
				GroupResource:       config.GroupResource,
				EventsHistoryWindow: config.EventsHistoryWindow,
				ResourcePrefix:      resourcePrefix,
				KeyFunc:             keyFunc,
				NewFunc:             newFunc,
				NewListFunc:         newListFunc,
				GetAttrsFunc:        getAttrs,
				IndexerFuncs:        triggers,
				Indexers:            indexers,
				Codec:               config.Codec,
			})
			if err != nil {
				return nil, nil, fmt.Errorf("make the watch cache of %s: %w", config.GroupResource, err)
			}
			history.bound(watchCache)
			delegator := cacher.NewCacheDelegator(watchCache, below)
			return withMinimum(delegator, listed), func() {
				delegator.Stop()
				watchCache.Stop()
			}, nil
		})
	}
}
