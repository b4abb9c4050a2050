// Package kubernetes serves all types of kube-apiserver as data: the profile
// "kubernetes" of the configuration. Validation, defaults and storage are those of
// k8s.io/kubernetes/pkg/controlplane, which only this package and upstream/workloads
// import. No controller, scheduler or kubelet acts on the types.
//
//   - options.go: the flags of kube-apiserver about services and pods
//   - profile.go: types and admission plugins of the profile, its API server, and requests that
//     need a kubelet or a container
//   - stored.go: stored objects of types that only this profile serves
package kubernetes
