// Package envtest stands in for the binaries that
// sigs.k8s.io/controller-runtime/pkg/envtest starts: kube-apiserver and etcd. They
// are this program under other names, in one directory (KUBEBUILDER_ASSETS).
//
//   - install.go makes the directory
//   - etcd.go is etcd as far as envtest uses it: it answers health checks, and tells
//     kube-apiserver where the data directory is. The database is in the process of
//     kube-apiserver
//   - apiserver.go reads the command line of kube-apiserver
package envtest
