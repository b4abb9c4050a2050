// Package etcd reads the files of an etcd member without etcd, and turns etcd's fatal
// failures into errors.
package etcd
