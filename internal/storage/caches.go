package storage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// cachePoll is the interval at which await checks the watch caches.
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
	return s.caches.await(ctx)
}

// await waits until all caches have their first list.
func (c *watchCaches) await(ctx context.Context) error {
	ticker := time.NewTicker(cachePoll)
	defer ticker.Stop()
	for !c.ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until the watch caches are filled: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
	return nil
}
