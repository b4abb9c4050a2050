// Package apiservices registers custom resources with the aggregator: it maintains an
// APIService for each group version that CRDs serve, and answers the discovery of
// groups. It replaces upstream's registration of CRDs
// (k8s.io/kubernetes/pkg/controlplane/controller/crdregistration and
// k8s.io/kube-aggregator/pkg/controllers/autoregister), whose time grows with the
// square of the number of group versions.
//
// The aggregator does not have these APIServices
// ([kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube.LeaveOutCRDAPIServices]):
// requests for custom resources reach its delegate without them. They are stored
// because clients read them, and so that a remote server can take over a group version.
package apiservices
