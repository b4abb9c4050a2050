package store

import "net/url"

// Upstream fact: which objects a watch cache takes into memory
//
// Mirrors: k8s.io/apiserver/pkg/storage/cacher.computeListLimit
//   k8s.io/apiserver/pkg/storage/cacher.newCacheIntervalFromStore
// Why: no exported function tells how many objects a list or a watch reads.
// Gain: 500 informers that start at once, with limit=500 and resourceVersion=0, count
//   with all their objects (bench, lists and watches: highest resident memory).
// Breaks: requests are counted with too many or too few objects, so that many large
//   lists at a time take more memory. TestListGateEstimates fails.

// ListIsLimited reports whether the limit of a list bounds what it reads: a watch cache
// ignores the limit of a list of any version, which has resourceVersion 0.
func ListIsLimited(query url.Values) bool { return query.Get("resourceVersion") != "0" }

// WatchBeginsWithList reports whether a watch begins with the existing objects. The watch
// cache copies those of all namespaces, and then filters.
func WatchBeginsWithList(query url.Values) bool {
	version := query.Get("resourceVersion")
	return version == "" || version == "0" || query.Get("sendInitialEvents") == "true"
}
