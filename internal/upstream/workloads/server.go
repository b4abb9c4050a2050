package workloads

import (
	"net"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
)

// Upstream fact: how kube-apiserver configures its workload APIs
//
// Mirrors: k8s.io/kubernetes/cmd/kube-apiserver/app.CreateKubeAPIServerConfig
//   k8s.io/kubernetes/pkg/controlplane.CompletedConfig.New
//   k8s.io/kubernetes/pkg/registry/scheduling/rest.AddSystemPriorityClasses
//   k8s.io/kubernetes/pkg/registry/core/rest.Config.newServiceIPAllocators
// Why: the function that does it is in a cmd package and takes all options of
//   kube-apiserver. The hook of the priority classes waits a second. The
//   allocator of node ports makes an etcd client.
// Gain: a start with the profile kubernetes without the second of the hook.
// Breaks: a setting is missing, the hook runs as well, or the allocator dials an
//   address at which nothing listens.

// apiServerServicePort is the port of the service "kubernetes".
const apiServerServicePort = 443

// Config configures [New].
type Config struct {
	// ControlPlane is the configuration of the native API server. New changes it.
	ControlPlane *controlplaneapiserver.Config
	// AllowPrivileged allows privileged containers.
	AllowPrivileged bool
	// NodePorts, ServiceIPs and SecondaryServiceIPs are the ranges of services; the IP of
	// the last is nil for a single family.
	NodePorts                       utilnet.PortRange
	ServiceIPs, SecondaryServiceIPs net.IPNet
	// APIServerIP is the cluster IP of the service "kubernetes".
	APIServerIP net.IP
}

// New creates the API server of all types, in front of delegate, without the hook of the
// priority classes, which waits a second.
func New(cfg Config, delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	capabilities.Setup(cfg.AllowPrivileged, 0)
	generic := cfg.ControlPlane.Generic
	generic.DisabledPostStartHooks.Insert(schedulingrest.PostStartHookName)
	config := &controlplane.Config{
		ControlPlane: *cfg.ControlPlane,
		Extra: controlplane.Extra{
			// No connection is made with it; an empty one is refused.
			KubeletClientConfig:     kubeletclient.KubeletClientConfig{Port: 10250},
			ServiceIPRange:          cfg.ServiceIPs,
			SecondaryServiceIPRange: cfg.SecondaryServiceIPs,
			APIServerServiceIP:      cfg.APIServerIP,
			APIServerServicePort:    apiServerServicePort,
			ServiceNodePortRange:    cfg.NodePorts,
			MasterCount:             1,
		},
	}
	endpoints(&config.Extra, generic.PublicAddress)
	instance, err := config.Complete().New(delegate)
	if err != nil {
		return nil, err
	}
	return instance.ControlPlane, nil
}

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
