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
// [Options] lists what a program can add: types in Go ([Resource], [Kind]), admission,
// handlers, authentication and authorization, controllers, manifests. A panic in a function of
// the program fails only the request that calls it. A request other than a watch times out
// after a minute, even if such a function has not returned.
//
// # The process
//
// A process may have many control planes, each with a directory of its own. What belongs to
// the process stays the program's: the package handles no signals, ends no process, and changes
// neither the global logger nor the garbage collection, umask or environment. The exceptions are
// the libraries':
//
//   - Feature gates: the first control plane sets those of the process, and New refuses others.
//   - klog.Fatal: from the first Start on, it stops the control planes of the process, whose
//     [ControlPlane.Err] returns it, instead of ending the process.
//   - NOTIFY_SOCKET: where systemd has set it, the API server sends READY=1 and removes the
//     variable. A program that notifies systemd itself removes it before, or sets
//     [Options.OwnsProcess].
//
// /metrics of each control plane has its own metrics (kube_hyper_mini_*), until it stops, and
// those that the libraries of Kubernetes and etcd count for the process.
// apiserver_storage_size_bytes has a label for each embedded etcd.
//
// Each control plane after the first takes about 13 MB of anonymous memory. The smallest program
// has 117 MB, stripped (-ldflags "-s -w").
//
// # Compatibility
//
// The module is v0: a minor release may change what this package and [config] export, and its
// changelog says how; a patch release does not. Types of Kubernetes in the signatures change with
// the Kubernetes of the release. The on-disk format of a directory is that of
// `kube-hyper-mini server`: newer releases upgrade it, older ones refuse it.
package controlplane
