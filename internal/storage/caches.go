package storage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/storage"
)

// cachePoll is the interval at which await checks the watch caches.
const cachePoll = time.Millisecond

// watchCaches has the stores with a watch cache. It is safe for concurrent use.
type watchCaches struct {
	mu     sync.Mutex
	stores []storage.Interface
}

func (c *watchCaches) add(store storage.Interface) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores = append(c.stores, store)
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

// RequestProgress makes etcd send its current revision to the watch caches of built-in
// resources. A list waits until the cache of its type has that revision, which a cache
// requests every 100 ms only.
func (s *Storage) RequestProgress(ctx context.Context) {
	s.caches.mu.Lock()
	defer s.caches.mu.Unlock()
	for _, store := range s.caches.stores {
		_ = store.RequestWatchProgress(ctx) // the cache repeats the request
	}
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
