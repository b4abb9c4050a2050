// Package etcd reads the files of an etcd member beside etcd, and turns what
// etcd does when it fails for good into errors.
package etcd
