// Package fleet has what the servers that share one etcd know of each other: how many
// they are, and which client keys all of them refuse.
//
// Each server has a key in etcd that expires unless it is renewed. The requests have
// the forms of kube-apiserver's own storage, so that they work with other stores for
// Kubernetes, such as kine.
package fleet
