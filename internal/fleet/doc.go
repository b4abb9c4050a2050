// Package fleet has what the servers that share one etcd know of each other: how many
// they are, and which client keys all of them refuse.
//
// Each server keeps a key in etcd that expires unless it is renewed. The
// operations are those of kube-apiserver's own storage, so that they work on
// everything that stores for Kubernetes, as kine.
package fleet
