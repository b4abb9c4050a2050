package store

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// Upstream fact: how a watch cache reads its store
//
// Mirrors: k8s.io/apiserver/pkg/storage/cacher.NewListerWatcher
//   k8s.io/apiserver/pkg/storage/cacher.listerWatcher.List
//   k8s.io/apiserver/pkg/storage/cacher.watchCache.getAllEventsSinceLocked
//   k8s.io/client-go/util/watchlist.DoesClientNotSupportWatchListSemantics
// Why: a cache has the events since its first list. Watches that wait for the
//   first object of a type, without a cache, continue in one that is made
//   afterwards, and must not miss that object.
// Gain: a watch of a type without objects costs no watch cache.
// Breaks: such watches end with "too old resource version" when the first object
//   comes, and clients list again. TestEmptyWatchContinuesUpstream fails.

// withFirstList returns store for a watch cache: the first list is empty, as of the
// revision that start returns, if that is not 0.
func withFirstList(store storage.Interface, resource schema.GroupResource, start func(schema.GroupResource) (first, seen int64)) storage.Interface {
	if start == nil {
		return store
	}
	return &emptyFirstList{Interface: store, start: func() (int64, int64) { return start(resource) }}
}

// readSince returns the store with a watch cache whose first list was that of
// withFirstList. A read of any version (resourceVersion 0) waits until the cache has
// reached the revision that was the newest when it began. Otherwise it would miss
// objects that were stored before, and informers would count as synced without them.
func readSince(cached, first storage.Interface) storage.Interface {
	began, ok := first.(*emptyFirstList)
	if !ok {
		return cached
	}
	return &sinceStart{Interface: cached, seen: &began.seen}
}

type sinceStart struct {
	storage.Interface
	seen *atomic.Int64
}

// Get implements [storage.Interface].
func (n *sinceStart) Get(ctx context.Context, key string, options storage.GetOptions, object runtime.Object) error {
	options.ResourceVersion = n.version(options.ResourceVersion)
	return n.Interface.Get(ctx, key, options, object)
}

// GetList implements [storage.Interface].
func (n *sinceStart) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	options.ResourceVersion = n.version(options.ResourceVersion)
	return n.Interface.GetList(ctx, key, options, list)
}

func (n *sinceStart) version(requested string) string {
	if seen := n.seen.Load(); requested == "0" && seen > 0 {
		return strconv.FormatInt(seen, 10)
	}
	return requested
}

type emptyFirstList struct {
	storage.Interface
	start  func() (first, seen int64)
	listed atomic.Bool
	seen   atomic.Int64 // 0 if the first list was not empty
}

// IsWatchListSemanticsUnSupported has the cache list; otherwise it would get the
// existing objects from its watch.
func (*emptyFirstList) IsWatchListSemanticsUnSupported() bool { return true }

// GetList implements [storage.Interface].
func (e *emptyFirstList) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if !e.listed.Swap(true) {
		if revision, seen := e.start(); revision > 0 {
			e.seen.Store(max(revision, seen))
			if err := e.Versioner().UpdateList(list, uint64(revision), "", nil); err != nil {
				return fmt.Errorf("begin the watch cache at revision %d: %w", revision, err)
			}
			return nil
		}
	}
	return e.Interface.GetList(ctx, key, options, list)
}
