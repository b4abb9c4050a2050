// Package workloads holds what the profile kubernetes repeats of kube-apiserver's
// assembly. It imports the registries of all types.
package workloads
