package store

import (
	"errors"
	"net/url"

	"k8s.io/apiserver/pkg/storage"
)

// Upstream fact: what a watch cache reads, and what it refuses
//
// Mirrors: k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.GetList
//   k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.Watch
//   k8s.io/apiserver/pkg/storage/cacher.shouldDelegateListOnNotReadyCache
//   k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.ReadinessCheck
//   k8s.io/apiserver/pkg/storage/cacher.computeListLimit
//   k8s.io/apiserver/pkg/storage/cacher.newCacheIntervalFromStore
//   k8s.io/apiserver/pkg/storage/etcd3.areInitialEventsRequired
// Why: the cache of a type is made at its first request, which would get a 429 until it is
//   filled; lists with a limit and without selectors are read from etcd meanwhile. No
//   exported function tells how many objects a list or a watch reads, and whether a watch
//   begins with the existing ones.
// Gain: a type can be listed and watched when its creation is answered: the first page of
//   100,000 objects takes 0.1 s instead of 10 s on a busy machine. 500 informers that start
//   at once, with limit=500 and resourceVersion=0, count with all their objects (bench,
//   lists and watches: highest resident memory). A watch of 2,452 CRDs takes the memory of
//   a page of them (bench, crds).
// Breaks: the first list or watch of a type gets a 429, requests are counted with too many
//   or too few objects, or a watch of CRDs lacks the existing ones.
//   TestReadsOfAnUnreadyStore, TestListGateEstimates and TestWatchesOfWholeDefinitions
//   fail.

// ReadsUnfilled reports whether a watch cache that is not filled serves a list, from etcd.
// It refuses others, and watches, with "storage is (re)initializing", a 429.
func ReadsUnfilled(options storage.ListOptions) bool {
	predicate := options.Predicate
	return predicate.Limit > 0 && (predicate.Label == nil || predicate.Label.Empty()) &&
		(predicate.Field == nil || predicate.Field.Empty())
}

// IsFilling reports whether the watch cache of a store is not filled yet. A store that is
// closed or cannot be opened returns other errors.
func IsFilling(store storage.Interface) bool {
	return errors.Is(store.ReadinessCheck(), storage.ErrStorageNotReady)
}

// ListIsLimited reports whether the limit of a list bounds what it reads: a watch cache
// ignores the limit of a list of any version, which has resourceVersion 0.
func ListIsLimited(query url.Values) bool { return query.Get("resourceVersion") != "0" }

// WatchBeginsWithList reports whether a watch from a version begins with the existing objects,
// as areInitialEventsRequired of etcd3. The watch cache copies those of all namespaces, and
// then filters.
func WatchBeginsWithList(version string, sendInitialEvents *bool) bool {
	if sendInitialEvents != nil {
		return *sendInitialEvents
	}
	return version == "" || version == "0"
}
