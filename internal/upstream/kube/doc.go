// Package kube holds what the API servers repeat of Kubernetes' own assembly, or
// rely on in it: configuration that is taken away between two steps, hooks that
// are left out by name, and functions that Kubernetes does not export.
package kube
