// Package etcd owns the embedded etcd member. The way in is the in-process
// client; a member listens only for the API servers of other processes (see
// [Listener]), and never for peers.
package etcd
