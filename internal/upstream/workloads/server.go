package workloads

import (
	genericapiserver "k8s.io/apiserver/pkg/server"
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

// New creates the API server of all types, in front of delegate, without the hook of the
// priority classes (see [PriorityClasses]). It changes the configuration of the native API
// server. extra has the settings of services. Shared means that several servers may use the etcd.
func New(c *controlplaneapiserver.Config, extra controlplane.Extra, shared bool,
	delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	c.Generic.DisabledPostStartHooks.Insert(schedulingrest.PostStartHookName)
	// No connection is made with it; an empty one is refused.
	extra.KubeletClientConfig = kubeletclient.KubeletClientConfig{Port: 10250}
	extra.APIServerServicePort, extra.MasterCount = apiServerServicePort, 1
	config := &controlplane.Config{ControlPlane: *c, Extra: extra}
	if err := reconcileEndpoints(&config.Extra, c.Generic.PublicAddress, shared,
		c.Generic.LoopbackClientConfig); err != nil {
		return nil, err
	}
	instance, err := config.Complete().New(delegate)
	if err != nil {
		return nil, err
	}
	return instance.ControlPlane, nil
}
