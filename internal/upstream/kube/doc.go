// Package kube has the code that relies on how Kubernetes assembles its API servers and
// how its controllers work: the order in which options are applied, hooks that are
// disabled by name, functions that Kubernetes does not export, and what a controller does
// with its informers.
package kube
