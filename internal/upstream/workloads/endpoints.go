package workloads

import (
	"fmt"
	"net"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
)

// Upstream fact: endpoint reconcilers are for several API servers
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice.Controller.Start
//   k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice.Controller.Stop
//   k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice.Controller.UpdateKubernetesService
//   k8s.io/kubernetes/pkg/controlplane/reconcilers.masterCountEndpointReconciler.ReconcileEndpoints
// Why: upstream's reconcilers write a lease every 10 s, or, for a fixed number of servers, remove
//   the endpoints at each stop. Endpoints with a loopback address are not valid.
// Gain: default/kubernetes has endpoints on one server, as on kube-apiserver.
// Breaks: the endpoints are missing, or an error is logged at each start or stop.
//   Tests: TestEndpointsOfTheServer, TestKubernetesProfile.

// reconcileEndpoints sets the reconciler of the endpoints of the service "kubernetes",
// which have the address of the server. Endpoints with a loopback address are not valid:
// for a server on loopback they have the address of the host's default interface, as
// those of kube-apiserver. There are none on a host without such an interface, and none
// for servers on loopback that share an etcd.
func reconcileEndpoints(extra *controlplane.Extra, address net.IP, shared bool, client *rest.Config) error {
	local := address == nil || address.IsLoopback() || address.IsUnspecified()
	if shared && !local {
		extra.EndpointReconcilerType = reconcilers.LeaseEndpointReconcilerType
		return nil
	}
	client = rest.CopyConfig(client)
	client.WarningHandler = rest.NoWarnings{} // Endpoints are deprecated
	clients, err := kubernetes.NewForConfig(client)
	if err != nil {
		return fmt.Errorf("make the client for the endpoints of the API server: %w", err)
	}
	var written net.IP
	if !shared {
		// An error means that there is no such interface.
		written, _ = utilnet.ResolveBindAddress(address)
	}
	extra.EndpointReconcilerConfig.Reconciler = newEndpoints(clients, written)
	return nil
}

// endpoints writes those of the only server on an etcd. Those of an earlier start are
// replaced.
type endpoints struct {
	reconcilers.EndpointReconciler
	address  net.IP // nil if none are written
	stopping atomic.Bool
}

func newEndpoints(clients kubernetes.Interface, address net.IP) *endpoints {
	adapter := reconcilers.NewEndpointsAdapter(clients.CoreV1(), clients.DiscoveryV1())
	return &endpoints{EndpointReconciler: reconcilers.NewMasterCountEndpointReconciler(1, adapter), address: address}
}

// ReconcileEndpoints implements [reconcilers.EndpointReconciler]. It writes only what
// differs.
func (e *endpoints) ReconcileEndpoints(service string, _ net.IP, ports []corev1.EndpointPort, _ bool) error {
	if e.address == nil || e.stopping.Load() {
		return nil
	}
	return e.EndpointReconciler.ReconcileEndpoints(service, e.address, ports, true)
}

// RemoveEndpoints implements [reconcilers.EndpointReconciler]. It removes nothing, and
// returns what [k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice.Controller]
// logs no error for: that there are none at the start, and nil at the stop.
func (e *endpoints) RemoveEndpoints(service string, _ net.IP, _ []corev1.EndpointPort) error {
	if e.stopping.Load() {
		return nil
	}
	return storage.NewKeyNotFoundError(service, 0)
}

// StopReconciling implements [reconcilers.EndpointReconciler].
func (e *endpoints) StopReconciling() { e.stopping.Store(true) }
