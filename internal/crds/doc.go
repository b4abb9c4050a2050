// Package crds serves custom resources so that the cost of a CRD that is not in use is
// its metadata. It assembles the apiextensions server from upstream's exported parts,
// in place of completedConfig.New of k8s.io/apiextensions-apiserver/pkg/apiserver.
//
// See ARCHITECTURE, The way of a CRD, for the parts from the store to the client.
package crds
