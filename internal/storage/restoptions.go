package storage

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
)

// CachePolicy says whether a resource gets a watch cache.
type CachePolicy func(schema.GroupResource) bool

// RESTOptionsGetter wraps upstream's getter: same options, our decorator. It
// also replaces the monitor behind apiserver_storage_size_bytes, which upstream
// sets, for the whole process, together with its getter
// (genericoptions.EtcdOptions.ApplyWithStorageFactoryTo): that one dials an
// etcd endpoint, and every scrape of /metrics would wait for it.
func (s *Storage) RESTOptionsGetter(upstream generic.RESTOptionsGetter, cached CachePolicy) generic.RESTOptionsGetter {
	metrics.SetStorageMonitorGetter(func() ([]metrics.Monitor, error) { return []metrics.Monitor{monitor{s}}, nil })
	return &getter{upstream: upstream, storage: s, cached: cached}
}

type getter struct {
	upstream generic.RESTOptionsGetter
	storage  *Storage
	cached   CachePolicy
}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (g *getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.upstream.GetRESTOptions(resource, example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	g.storage.remember(resource, opts.ResourcePrefix)
	opts.Decorator = g.storage.uncached
	if g.cached(resource) {
		opts.Decorator = g.storage.withCacher
	}
	return opts, nil
}

// withCacher mirrors genericregistry.StorageWithCacher over the shared client.
func (s *Storage) withCacher(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	keyFunc func(obj runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	getAttrs storage.AttrFunc,
	triggers storage.IndexerFuncs,
	indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	raw, destroy, err := s.newStore(config, newFunc, newListFunc, resourcePrefix)
	if err != nil {
		return nil, nil, err
	}
	watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             raw,
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
		destroy()
		return nil, nil, fmt.Errorf("make the watch cache of %s: %w", config.GroupResource, err)
	}
	delegator := cacher.NewCacheDelegator(watchCache, raw)
	return delegator, sync.OnceFunc(func() {
		delegator.Stop()
		watchCache.Stop()
		destroy()
	}), nil
}

// uncached mirrors generic.UndecoratedStorage over the shared client.
func (s *Storage) uncached(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	_ func(obj runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
	_ storage.AttrFunc,
	_ storage.IndexerFuncs,
	_ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	return s.newStore(config, newFunc, newListFunc, resourcePrefix)
}

// newStore mirrors newETCD3Storage of
// k8s.io/apiserver/pkg/storage/storagebackend/factory, without the dialling.
func (s *Storage) newStore(config *storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
	// A copy of the client for its own watcher and latency tracker; the
	// connection underneath stays the shared one and is never closed here.
	own := *s.connection.Client
	own.Watcher = s.connection.NewWatcher()
	if s.connection.Single {
		own.KV = localReads{own.KV}
	}
	own.KV, own.Lease = patientKV{own.KV, &s.connection}, patientLease{own.Lease, &s.connection}
	own.KV = etcd3.NewETCDLatencyTracker(own.KV)
	client := &kubernetes.Client{Client: &own}
	client.Kubernetes = client

	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	decoder := etcd3.NewDefaultDecoder(config.Codec, versioner)
	unsafeDelete := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if unsafeDelete {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store, err := etcd3.New(client, s.compactor, config.Codec, newFunc, newListFunc, config.Prefix, resourcePrefix,
		config.GroupResource, transformer, config.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		_ = own.Watcher.Close() // it never watched anything
		return nil, nil, fmt.Errorf("make the store of %s: %w", config.GroupResource, err)
	}
	// Subresources share a store, and each destroys it.
	destroy := sync.OnceFunc(func() {
		store.Close()
		_ = own.Watcher.Close() // its error says that the context was cancelled, which is what closing does
	})
	if unsafeDelete {
		return etcd3.NewStoreWithUnsafeCorruptObjectDeletion(store, config.GroupResource), destroy, nil
	}
	return store, destroy, nil
}

// localReads reads without asking a quorum of one (clientv3.WithSerializable).
type localReads struct{ clientv3.KV }

// Get implements [clientv3.KV].
func (l localReads) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return l.KV.Get(ctx, key, append(opts, clientv3.WithSerializable())...)
}
