package store

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// Upstream fact: how a watch cache reads its store
//
// Mirrors: k8s.io/apiserver/pkg/storage/cacher.NewListerWatcher
//   k8s.io/apiserver/pkg/storage/cacher.listerWatcher.List
//   k8s.io/apiserver/pkg/storage/cacher.watchCache.getAllEventsSinceLocked
//   k8s.io/apiserver/pkg/storage/cacher.watchCache.waitUntilFreshAndList
//   k8s.io/apiserver/pkg/storage/cacher.computeListLimit
//   k8s.io/apiserver/pkg/storage/cacher/delegator.ShouldDelegateList
//   k8s.io/client-go/util/watchlist.DoesClientNotSupportWatchListSemantics
// Why: watches of a type without objects need no cache. When the first object is stored,
//   a cache is made, and these watches continue in it. A cache has the events since its
//   first list, which must therefore be older than the first object.
// Gain: no optimisation by itself: the watches of types without objects, whose gain the fact
//   about their responses has, continue when the first object comes.
// Breaks: such watches end with "too old resource version" when the first object
//   comes, and clients list again, or informers count as synced without objects.
//   TestEmptyWatchContinuesUpstream or TestPagesOfAnyVersionHaveAllObjects fails.

// CacheStart returns the revision at which a watch cache of the resource begins without
// objects, and a revision whose objects each read of the cache must have. The first one is
// 0 for a cache that lists the objects as upstream's do.
type CacheStart func(resource schema.GroupResource) (empty, minimum int64)

// withEmptyFirstList returns the store that a watch cache reads. Its first list has no
// objects, at the revision of start.
func withEmptyFirstList(store storage.Interface, resource schema.GroupResource, start CacheStart) storage.Interface {
	if start == nil {
		return store
	}
	return &emptyFirstList{Interface: store, start: func() (int64, int64) { return start(resource) }}
}

// withMinimum returns the store with a watch cache above a store of withEmptyFirstList.
// Until the cache has got the events since its empty list, it lacks objects. A list of any
// version (resourceVersion 0) waits for those of the minimum: informers would count as
// synced without them.
func withMinimum(cached, listed storage.Interface) storage.Interface {
	below, ok := listed.(*emptyFirstList)
	if !ok {
		return cached
	}
	return &minimumVersion{Interface: cached, minimum: &below.minimum}
}

// minimumVersion is a store whose lists of any version are at least as new as the minimum.
type minimumVersion struct {
	storage.Interface
	minimum *atomic.Int64 // 0 for none, and once the cache has reached it
}

// GetList implements [storage.Interface].
func (m *minimumVersion) GetList(ctx context.Context, key string,
	options storage.ListOptions, list runtime.Object) error {
	minimum := m.minimum.Load()
	if options.ResourceVersion != "0" || minimum == 0 {
		return m.Interface.GetList(ctx, key, options, list)
	}
	// Upstream ignores the limit of a list of any version. With a limit, another version
	// without a match means exactly that version.
	options.ResourceVersion, options.ResourceVersionMatch = strconv.FormatInt(minimum,
		10), metav1.ResourceVersionMatchNotOlderThan
	options.Predicate.Limit = 0
	err := m.Interface.GetList(ctx, key, options, list)
	if err == nil {
		m.minimum.CompareAndSwap(minimum, 0)
	}
	return err
}

// emptyFirstList is a store whose first list is empty.
type emptyFirstList struct {
	storage.Interface
	start   func() (empty, minimum int64)
	listed  atomic.Bool
	minimum atomic.Int64 // 0 if the first list was that of the store
}

// IsWatchListSemanticsUnSupported makes the cache list; otherwise it would get the
// existing objects from its watch.
func (*emptyFirstList) IsWatchListSemanticsUnSupported() bool { return true }

// GetList implements [storage.Interface].
func (e *emptyFirstList) GetList(ctx context.Context, key string,
	options storage.ListOptions, list runtime.Object) error {
	if !e.listed.Swap(true) {
		if empty, minimum := e.start(); empty > 0 {
			e.minimum.Store(max(empty, minimum))
			if err := e.Versioner().UpdateList(list, uint64(empty), "", nil); err != nil {
				return fmt.Errorf("begin the watch cache at revision %d: %w", empty, err)
			}
			return nil
		}
	}
	return e.Interface.GetList(ctx, key, options, list)
}
