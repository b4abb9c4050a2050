package storage

import (
	"context"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// storesPerWatcher is the number of stores that share a watcher. A watcher takes six
// goroutines, and one more for each further watch. Its watches wait for each other when
// the progress of one is requested, so their number is small.
const storesPerWatcher = 8

// watcherPool makes the watchers of stores. It is safe for concurrent use.
type watcherPool struct {
	make func() clientv3.Watcher

	mu   sync.Mutex
	open []*sharedWatcher
}

// sharedWatcher is the watcher of several stores.
type sharedWatcher struct {
	clientv3.Watcher
	users int // guarded by the pool's mu
}

// get returns a watcher. Its Close ends its own watches only.
func (p *watcherPool) get() clientv3.Watcher {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.open, func(shared *sharedWatcher) bool { return shared.users < storesPerWatcher })
	if i < 0 {
		i = len(p.open)
		p.open = append(p.open, &sharedWatcher{Watcher: p.make()})
	}
	shared := p.open[i]
	shared.users++
	ctx, cancel := context.WithCancel(context.Background())
	return &pooledWatcher{sharedWatcher: shared, ctx: ctx, close: sync.OnceValue(func() error {
		cancel()
		return p.release(shared)
	})}
}

// release closes the watcher if no store uses it any more.
func (p *watcherPool) release(shared *sharedWatcher) error {
	p.mu.Lock()
	shared.users--
	unused := shared.users == 0
	if unused {
		p.open = slices.DeleteFunc(p.open, func(other *sharedWatcher) bool { return other == shared })
	}
	p.mu.Unlock()
	if !unused {
		return nil
	}
	return shared.Watcher.Close()
}

// pooledWatcher is the watcher of one store.
type pooledWatcher struct {
	*sharedWatcher
	ctx   context.Context // ends with Close
	close func() error
}

// Watch implements [clientv3.Watcher].
func (w *pooledWatcher) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(w.ctx, cancel)
	context.AfterFunc(ctx, func() { unlink() })
	return w.sharedWatcher.Watch(ctx, key, options...)
}

// Close implements [clientv3.Watcher].
func (w *pooledWatcher) Close() error { return w.close() }
