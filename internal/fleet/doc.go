// Package fleet coordinates the servers that share one etcd: it counts them, elects one
// of them, and shares the client keys that all of them refuse.
//
// Each server has a key in etcd that expires unless it is renewed. The requests have
// the forms of kube-apiserver's own storage, so that they work with other stores for
// Kubernetes, such as kine.
package fleet
