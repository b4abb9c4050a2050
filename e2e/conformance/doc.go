// Command conformance runs upstream's end-to-end specs against
// kube-hyper-mini, or against any server that a kubeconfig names.
//
// It builds the product, the suite and kubectl of the same Kubernetes
// version, starts a server with an empty data directory for each list of
// specs (package specs), runs exactly the specs of that list, a few at a time
// because most of them wait, and ends with the line
//
//	conformance: P passed, F failed of N
//
// after the names and reasons of those that failed. A listed spec that was
// skipped, did not run or does not exist has failed. The results are in
// junit.xml of the output directory, the logs beside it.
//
// With -side=kube-apiserver the server is that of upstream: etcd, kube-apiserver and
// kube-controller-manager with all its controllers, and without nodes. That is how to see
// whether a spec may be on a list. The benchmark (-serve) starts it.
//
// Exit codes: 0 all passed, 1 some failed, 2 they could not be run.
package main
