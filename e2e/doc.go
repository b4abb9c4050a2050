// Package e2e tests the real binary as a user runs it, with the real kubectl. Package
// harness builds both and starts servers.
//
// The directories beside it have more tests, each for the subject of its name: faults
// kills servers and damages files, clients runs programs of other projects, differences
// compares this server with kube-apiserver. bench measures both sides; conformance and
// envtest run the test suites of Kubernetes and controller-runtime.
//
// A directory with a go.mod of its own, such as kine, helm or k9s, builds a program of
// another project, whose dependencies stay out of the go.mod of the tests.
package e2e
