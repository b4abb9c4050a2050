// Package fleet counts the servers that share one etcd.
//
// Each server keeps a key in etcd that expires unless it is renewed. The
// operations are those of kube-apiserver's own storage, so that they work on
// everything that stores for Kubernetes, as kine.
package fleet
