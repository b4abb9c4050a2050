package kube

// Upstream fact: the config map for aggregated API servers only grows
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust.Controller.syncConfigMap
//   k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust.combineCertLists
// Why: its controller adds authorities and drops only those that have expired; identity.dropAuthorities
//   drops those that were replaced.
// Gain: an authority that was replaced is not trusted any more.
// Breaks: the two write against each other, or a replaced authority stays. Tests:
//   TestRotationWithAnAggregatedServer.

// AuthenticationConfigMap is the name of the config map in kube-system with the
// authorities that aggregated API servers trust.
const AuthenticationConfigMap = "extension-apiserver-authentication"
