// Package storage decides how the API servers store: over which connection,
// with which watch cache, who compacts, who measures.
//
// Upstream opens a client for every resource and for every version of every
// custom resource (kubernetes#111622). Here all of them share one: the
// decorator of each RESTOptions is replaced by one that builds upstream's
// etcd3 store and cacher over it.
package storage
