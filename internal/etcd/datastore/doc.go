// Package datastore runs the store of a server: the etcd member in this process
// ([Embedded]), or the connection to an etcd cluster of other processes ([External]).
//
// Both are a [Datastore]: a part of the process that connects the API servers with
// etcd and detects other servers on the same etcd.
package datastore
