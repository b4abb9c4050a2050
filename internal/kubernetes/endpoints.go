package kubernetes

import (
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// endpoints sets the reconciler of the endpoints of the service "kubernetes",
// which have the addresses of the API servers. Endpoints with a loopback
// address are not valid, so that a server on loopback has the service without
// endpoints.
func endpoints(extra *controlplane.Extra, address net.IP) {
	if address == nil || address.IsLoopback() || address.IsUnspecified() {
		extra.EndpointReconcilerConfig.Reconciler = noEndpoints{reconcilers.NewNoneEndpointReconciler()}
		return
	}
	extra.EndpointReconcilerType = reconcilers.LeaseEndpointReconcilerType
}

// noEndpoints is upstream's reconciler that writes no endpoints. It does not return its
// error about the endpoints of an earlier server.
type noEndpoints struct{ reconcilers.EndpointReconciler }

// RemoveEndpoints implements [reconcilers.EndpointReconciler].
func (noEndpoints) RemoveEndpoints(service string, _ net.IP, _ []corev1.EndpointPort) error {
	return storage.NewKeyNotFoundError(service, 0)
}
