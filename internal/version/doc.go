// Package version returns the versions of the program, of Kubernetes, of etcd and
// of Go in this binary.
package version
