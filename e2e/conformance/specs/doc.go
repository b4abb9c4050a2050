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
// (conformance-kubernetes.test -list-tests); leave out those of the lists, and those whose
// names, source and [BeforeEach] show that they need what is said above; write the rest
// into the file of the list and run it. A spec that then passes belongs to the list. Of
// 7,223 specs of 1.36.3, 18 were run last, chosen by name: 6 passed. Of the others, 4 need a
// node, 3 a running pod, 3 the controllers of disruption budgets or of volumes, and 2 skip
// themselves.
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
