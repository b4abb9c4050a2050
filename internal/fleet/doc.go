// Package fleet coordinates the servers that share one etcd: it counts them, names
// them together, and tells a new server whether it may make authorities of its own.
//
// Each server has a key in etcd that expires unless it is renewed. The requests have
// the forms of kube-apiserver's own storage, so that they work with other stores for
// Kubernetes, such as kine.
package fleet
