package store

import (
	"context"
	"fmt"
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
//   first object of a type, without a cache, go on in one that is made
//   afterwards, and must not miss that object.
// Gain: a watch of a type without objects costs no watch cache.
// Breaks: such watches end with "too old resource version" when the first object
//   comes, and clients list again. TestWaitingWatchIsHandedOver fails.

// beginning returns store for a watch cache: the first list is empty, as of the
// revision that start returns, if that is not 0.
func beginning(store storage.Interface, resource schema.GroupResource, start func(schema.GroupResource) int64) storage.Interface {
	if start == nil {
		return store
	}
	return &emptyBeginning{Interface: store, start: func() int64 { return start(resource) }}
}

type emptyBeginning struct {
	storage.Interface
	start  func() int64
	listed atomic.Bool
}

// IsWatchListSemanticsUnSupported has the cache list: it would watch for the
// objects that there are otherwise.
func (*emptyBeginning) IsWatchListSemanticsUnSupported() bool { return true }

// GetList implements [storage.Interface].
func (e *emptyBeginning) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if !e.listed.Swap(true) {
		if revision := e.start(); revision > 0 {
			if err := e.Versioner().UpdateList(list, uint64(revision), "", nil); err != nil {
				return fmt.Errorf("begin the watch cache at revision %d: %w", revision, err)
			}
			return nil
		}
	}
	return e.Interface.GetList(ctx, key, options, list)
}
