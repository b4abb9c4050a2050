// Package controlplane runs the control plane of Kubernetes without the containers in a Go
// program: etcd, the API server with CRDs, RBAC and aggregation, and the generic controllers.
// It is the server that `kube-hyper-mini server` runs.
//
//	cp, err := controlplane.New(controlplane.Options{})
//	if err != nil { ... }
//	if err := cp.Start(ctx); err != nil { ... } // it is ready
//	defer cp.Stop(context.Background())
//	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
//
// [Options] has the doors: types in Go ([Resource], [Kind]), admission, handlers,
// authentication and authorization, controllers, manifests. A process may have many control
// planes, each with a directory of its own. What belongs to the process stays the program's:
// the package handles no signals, ends no process, and changes neither the global logger nor
// the garbage collection. Feature gates are the exception: the first control plane sets those
// of the process, and New refuses others later.
//
// # Compatibility
//
// The module is v0: a minor release may change this package, and its changelog says how. The
// on-disk format of a directory is that of `kube-hyper-mini server`, which upgrades it.
package controlplane
