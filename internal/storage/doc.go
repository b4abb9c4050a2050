// Package storage connects the API servers with etcd. It decides which resources have a
// watch cache, runs the compaction, and counts the stored objects.
//
// Upstream opens an etcd client for every resource and for every version of every
// custom resource (kubernetes#111622). Here all of them share one client: this package
// replaces the Decorator of each RESTOptions by one that builds upstream's etcd3 store
// and cacher over the shared client.
package storage
