package kubernetes

import (
	"fmt"

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
	Options      *Options
}

// New creates the API server of all types, in front of delegate. Its storage
// factory must be able to connect to etcd: the allocator of node ports makes a
// client of its own. It mirrors
// k8s.io/kubernetes/cmd/kube-apiserver/app.CreateKubeAPIServerConfig.
func New(cfg Config, delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	ranges, err := cfg.Options.ranges()
	if err != nil {
		return nil, err
	}
	capabilities.Setup(cfg.Options.allowPrivileged, 0)
	generic := cfg.ControlPlane.Generic
	// Its first attempt waits a second; Bootstrap makes the classes.
	generic.DisabledPostStartHooks.Insert(schedulingrest.PostStartHookName)
	config := &controlplane.Config{
		ControlPlane: *cfg.ControlPlane,
		Extra: controlplane.Extra{
			// No connection is made with it (see RefuseKubelet); an empty one is refused.
			KubeletClientConfig:     kubeletclient.KubeletClientConfig{Port: 10250},
			ServiceIPRange:          ranges.primary,
			SecondaryServiceIPRange: ranges.secondary,
			APIServerServiceIP:      ranges.apiServer,
			APIServerServicePort:    apiServerServicePort,
			ServiceNodePortRange:    cfg.Options.nodePorts,
			MasterCount:             1,
		},
	}
	endpoints(&config.Extra, generic.PublicAddress)
	instance, err := config.Complete().New(delegate)
	if err != nil {
		return nil, fmt.Errorf("create the API server of the profile kubernetes: %w", err)
	}
	return instance.ControlPlane, nil
}
