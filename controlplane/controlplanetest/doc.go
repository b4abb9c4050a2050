// Package controlplanetest has control planes for tests in Go, in the test's process: no
// program and no port is needed.
//
//	server := controlplanetest.Start(t)
//	client := kubernetes.NewForConfigOrDie(server.Config)
//
// With controller-runtime's envtest:
//
//	env := &envtest.Environment{UseExistingCluster: ptr.To(true), Config: server.Config}
package controlplanetest
