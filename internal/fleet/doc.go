// Package fleet counts the servers that share one etcd.
//
// Each server has a key in etcd that expires unless it is renewed. The requests have
// the forms of kube-apiserver's own storage, so that they work with other stores for
// Kubernetes, such as kine.
package fleet
