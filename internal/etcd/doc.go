// Package etcd owns the embedded etcd member. It has no listener of any kind:
// the only way in is the in-process client.
package etcd
