// Package datastore owns where a server keeps its objects: in the etcd member
// inside the process, or in an etcd cluster that is run elsewhere.
//
// A [Datastore] runs as a part of the process ([Datastore.Run]), says how the API
// servers reach it, who maintains it, and which other servers use it.
package datastore
