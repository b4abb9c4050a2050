// Package workloads has the code that repeats kube-apiserver's assembly of the API server
// with all types, for the profile kubernetes. It imports the registries of all types.
package workloads
