// Package specs holds the lists of upstream's specs that a control plane
// without nodes must pass, and for each list the configuration of the server
// that it is run against.
//
// A spec belongs to a list if it passes on kube-apiserver with
// kube-controller-manager and etcd without any node, and needs only types that
// this server serves. That leaves out, of upstream's 7,579 specs, those that
// need a running pod, a node, a cloud provider, or a workload type, and those
// that upstream does not run itself.
//
// The list kubernetes is for the profile kubernetes, which stores all types of
// kube-apiserver: it has the generic list and the specs that need those types, but no
// node and no controller that this server does not have. Its spec about the endpoints of
// the Service default/kubernetes needs a host with a default route, as on kube-apiserver.
//
// To look for specs that a list lacks, as after a bump: list all with the built suite
// (conformance-kubernetes.test -list-tests), write those of no list into the file of the
// list, a few hundred at a time, and run it with make conformance SIDE=kube-apiserver
// LIMIT=25s: many wait minutes for a node. What passes there and on this server belongs to
// the list, unless it only waits whether a controller or kubelet that this server does not
// have does something.
//
// The specs of 1.36.3 were found so: all 7,345 of no list ran on kube-apiserver. Most skip
// themselves (drivers, providers) or fail at once for want of a node. Those that waited were
// ended after 12 or 25 s, and run again with more time unless they waited for a pod or for a
// controller that this server lacks. 50 passed there; 23 of them joined the list kubernetes.
// Of the other 27, 21 are about controllers of workloads, endpoints, disruption budgets or
// volumes, 5 pass because what they are about is absent, and one is marked [Flaky]. APIs
// that are off by default were off.
//
// The specs need: the service account "default" and the config map
// "kube-root-ca.crt" in every namespace; kubectl of the server's version; a
// server that knows its version; for the bootstrap tokens the controllers that
// sign and clean them, and the config map kube-public/cluster-info as kubeadm
// makes it.
//
// The file of a list has a spec on each line: "C", if it is [Conformance],
// else "-", and its full text.
package specs
