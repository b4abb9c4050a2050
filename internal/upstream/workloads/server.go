package workloads

import (
	"net"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
)

// Upstream fact: how kube-apiserver configures its workload APIs
//
// Mirrors: k8s.io/kubernetes/cmd/kube-apiserver/app.CreateKubeAPIServerConfig
//   k8s.io/kubernetes/cmd/kube-apiserver/app/options.Extra
//   k8s.io/kubernetes/cmd/kube-apiserver/app/options.ServerRunOptions.Flags
//   k8s.io/kubernetes/cmd/kube-apiserver/app/options.getServiceIPAndRanges
//   k8s.io/kubernetes/pkg/controlplane.CompletedConfig.New
//   k8s.io/kubernetes/pkg/registry/core/rest.Config.newServiceIPAllocators
// Why: the function that does it is in a cmd package and takes all options of
//   kube-apiserver. The allocator of node ports makes an etcd client.
// Gain: the profile kubernetes has the types of kube-apiserver, on an etcd without a port.
// Breaks: a setting is missing, or the allocator dials an address at which nothing
//   listens. Tests: TestKubernetesProfile.

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
	// Shared means that several servers may use the etcd.
	Shared bool
}

// New creates the API server of all types, in front of delegate, without the hook of the
// priority classes (see [PriorityClasses]).
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
	if err := reconcileEndpoints(&config.Extra, generic.PublicAddress, cfg.Shared,
		generic.LoopbackClientConfig); err != nil {
		return nil, err
	}
	instance, err := config.Complete().New(delegate)
	if err != nil {
		return nil, err
	}
	return instance.ControlPlane, nil
}
