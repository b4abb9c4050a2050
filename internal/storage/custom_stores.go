package storage

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// fillTimeout bounds how long a list or a watch waits for a watch cache to fill.
	fillTimeout = 10 * time.Second
	// pageTimeout is the same for the first page of a list that is read from etcd
	// meanwhile. The cache begins with an earlier revision then: it refuses watches from
	// revisions before its own.
	pageTimeout = 100 * time.Millisecond
)

// customWatchers is the number of watchers that the stores of custom resources share. The
// watch stream of a watcher takes six goroutines and 50 kB. The watches of a stream wait for
// each other when the progress of one is requested, so several watchers share the types.
const customWatchers = 8

// customStores has the open stores of custom resources. It is safe for concurrent use.
type customStores struct {
	mu       sync.Mutex
	open     map[*customStore]bool
	watchers []clientv3.Watcher
	made     int // stores, whose watchers take turns
}

// watcher returns the watcher of the next store. The store does not close it.
func (c *customStores) watcher(connection Connection) clientv3.Watcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.watchers) < customWatchers {
		c.watchers = append(c.watchers, connection.NewWatcher())
	}
	c.made++
	return sharedWatcher{c.watchers[c.made%len(c.watchers)]}
}

// add adds the store of one version of a custom resource.
func (c *customStores) add(opened *customStore) (storage.Interface, factory.DestroyFunc, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[*customStore]bool{}
	}
	c.open[opened] = true
	return opened, func() {
		c.mu.Lock()
		delete(c.open, opened)
		c.mu.Unlock()
		opened.close()
	}, nil
}

// close closes what is still open. No store is made after it.
func (c *customStores) close() {
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.open))
	clear(c.open)
	watchers := c.watchers
	c.watchers = nil
	c.mu.Unlock()
	for _, store := range open {
		store.close()
	}
	for _, watcher := range watchers {
		_ = watcher.Close() // the watches have ended with their stores
	}
}

// customStore is the store of one version of a custom resource. Upstream's handler makes one
// for each version, and clients use one of them: the watch cache is made at the first list or
// watch, and these wait until it has been filled, which takes milliseconds for a small type.
// Other requests read etcd. It is safe for concurrent use.
type customStore struct {
	storage.Interface                            // without the cache
	skipEmpty         func(revision int64) int64 // see [Population]
	destroy           factory.DestroyFunc
	add               store.AddCache

	mu     sync.Mutex
	cached storage.Interface // nil until the first use
	stop   func()            // of the cache
	closed bool
}

// cache returns the store with its watch cache.
func (s *customStore) cache() (storage.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, apierrors.NewServiceUnavailable("the storage of the resource is closed, try again")
	case s.cached == nil:
		cached, stop, err := s.add()
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		s.cached, s.stop = cached, stop
	}
	return s.cached, nil
}

// close closes the store for ever.
func (s *customStore) close() {
	s.mu.Lock()
	before, stop := s.closed, s.stop
	s.closed = true
	s.mu.Unlock()
	if before {
		return
	}
	if stop != nil {
		stop()
	}
	s.destroy()
}

// filled returns the store with its watch cache, when that has been filled or after the
// timeout: the store then answers that it is not ready.
func (s *customStore) filled(ctx context.Context, timeout time.Duration) (cached storage.Interface, err error) {
	_ = wait.PollUntilContextTimeout(ctx, cachePoll, timeout, true, func(context.Context) (bool, error) {
		cached, err = s.cache()
		return err != nil || !store.IsFilling(cached), nil
	})
	return cached, err
}

// GetList implements [storage.Interface]. A cache that is not filled refuses a list with
// "storage is (re)initializing", a 429, or reads a page from etcd.
func (s *customStore) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	timeout := fillTimeout
	switch {
	case !store.ReadsUnfilled(options):
	case options.Predicate.Continue == "":
		timeout = pageTimeout
	default:
		timeout = 0 // the next pages have the revision of the first one
	}
	cached, err := s.filled(ctx, timeout)
	if err != nil {
		return err
	}
	return cached.GetList(ctx, key, options, list)
}

// Watch implements [storage.Interface].
func (s *customStore) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	cached, err := s.filled(ctx, fillTimeout)
	if err != nil {
		return nil, err
	}
	// The store explains an error.
	if revision, err := strconv.ParseInt(options.ResourceVersion, 10, 64); err == nil && revision > 0 {
		options.ResourceVersion = strconv.FormatInt(s.skipEmpty(revision), 10)
	}
	return cached.Watch(ctx, key, options)
}
