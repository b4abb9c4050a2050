// Package etcd reads and writes the files of an etcd member without etcd, and turns etcd's
// fatal failures into errors. Reads of a member wait for its election.
package etcd
