package storage

import (
	"context"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/storage"
)

const (
	// cachePoll is the interval at which AwaitCaches checks the watch caches.
	cachePoll = time.Millisecond
	// cachesTimeout bounds AwaitCaches.
	cachesTimeout = 300 * time.Millisecond
)

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

// AwaitCaches waits until the watch caches of built-in resources have been filled.
// Until then they refuse lists and watches with a 429, and informers repeat these
// only after 0.8 to 1.6 seconds (defaultBackoffInit of k8s.io/client-go/tools/cache).
// It returns after cachesTimeout, or when ctx ends, in any case: with an etcd that does
// not answer, the informers wait and not the server.
func (s *Storage) AwaitCaches(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cachesTimeout)
	defer cancel()
	ticker := time.NewTicker(cachePoll)
	defer ticker.Stop()
	for !s.caches.ready() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
