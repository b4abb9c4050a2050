// Package envtest replaces the binaries that sigs.k8s.io/controller-runtime/pkg/envtest
// starts: kube-apiserver and etcd. They are this program under other names, in one
// directory (KUBEBUILDER_ASSETS).
//
//   - install.go makes the directory
//   - etcd.go is etcd for envtest: it answers health checks and returns the data
//     directory to kube-apiserver, whose process has the database
//   - apiserver.go reads the command line of kube-apiserver
//   - owner.go ends both when the test program has ended
package envtest
