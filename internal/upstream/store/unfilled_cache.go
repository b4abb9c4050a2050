package store

import (
	"errors"

	"k8s.io/apiserver/pkg/storage"
)

// Upstream fact: a watch cache that is not filled refuses lists and watches
//
// Mirrors: k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.GetList
//   k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.Watch
//   k8s.io/apiserver/pkg/storage/cacher.shouldDelegateListOnNotReadyCache
//   k8s.io/apiserver/pkg/storage/cacher.CacheDelegator.ReadinessCheck
// Why: the cache of a type is made at its first request, which would get a 429. Lists
//   with a limit and without selectors are read from etcd meanwhile.
// Gain: a type can be listed and watched when its creation is answered. The first page
//   of 100,000 objects takes 0.1 s instead of 10 s on a busy machine.
// Breaks: the first list or watch of a type gets a 429 and is repeated after a
//   second, or the first page waits until all objects are in memory.
//   TestReadsOfAnUnreadyStore fails.

// ReadsUnfilled reports whether a watch cache that is not filled serves a list, from etcd.
// It refuses others, and watches, with "storage is (re)initializing", a 429.
func ReadsUnfilled(options storage.ListOptions) bool {
	predicate := options.Predicate
	return predicate.Limit > 0 && (predicate.Label == nil || predicate.Label.Empty()) && (predicate.Field == nil || predicate.Field.Empty())
}

// IsFilling reports whether the watch cache of a store is not filled yet. A store that is
// closed or cannot be opened returns other errors.
func IsFilling(store storage.Interface) bool {
	return errors.Is(store.ReadinessCheck(), storage.ErrStorageNotReady)
}
