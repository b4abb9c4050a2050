package workloads

import (
	"fmt"
	"net"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
//   k8s.io/kubernetes/pkg/controlplane/reconcilers.EndpointsAdapter.Create
//   k8s.io/kubernetes/pkg/controlplane/reconcilers.EndpointsAdapter.Update
//   k8s.io/kubernetes/pkg/controlplane/reconcilers.EndpointsAdapter.EnsureEndpointSliceFromEndpoints
// Why: upstream's reconcilers write a lease every 10 s, or log a warning at each start
//   with another port. Endpoints with a loopback address are not valid.
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
	e := &endpoints{adapter: reconcilers.NewEndpointsAdapter(clients.CoreV1(), clients.DiscoveryV1())}
	if !shared {
		// An error means that there is no such interface.
		e.address, _ = utilnet.ResolveBindAddress(address)
	}
	extra.EndpointReconcilerConfig.Reconciler = e
	return nil
}

// endpoints writes those of the only server on an etcd. Those of an earlier start are
// replaced.
type endpoints struct {
	adapter  reconcilers.EndpointsAdapter
	address  net.IP // nil if none are written
	stopping atomic.Bool
}

// ReconcileEndpoints implements [reconcilers.EndpointReconciler]. It writes only what
// differs.
func (e *endpoints) ReconcileEndpoints(service string, _ net.IP, ports []corev1.EndpointPort, _ bool) error {
	if e.address == nil || e.stopping.Load() {
		return nil
	}
	//lint:ignore SA1019 upstream's adapter has no other type
	subsets := []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: e.address.String()}}, Ports: ports}}
	existing, err := e.adapter.Get(metav1.NamespaceDefault, service, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		meta := metav1.ObjectMeta{
			Name: service, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}, // the adapter writes the EndpointSlice
		}
		//lint:ignore SA1019 upstream's adapter has no other type
		_, err = e.adapter.Create(metav1.NamespaceDefault, &corev1.Endpoints{ObjectMeta: meta, Subsets: subsets})
		return err
	case err != nil:
		return err
	case equality.Semantic.DeepEqual(existing.Subsets, subsets):
		return e.adapter.EnsureEndpointSliceFromEndpoints(metav1.NamespaceDefault, existing)
	}
	existing.Subsets = subsets
	_, err = e.adapter.Update(metav1.NamespaceDefault, existing)
	return err
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

// Destroy implements [reconcilers.EndpointReconciler].
func (e *endpoints) Destroy() {}
