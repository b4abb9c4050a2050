package kubernetes

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// Config configures [New].
type Config struct {
	// ControlPlane is the configuration of the native API server. New changes it.
	ControlPlane *controlplaneapiserver.Config
	Options      *Options
	// Shared means that several servers may use the etcd.
	Shared bool
}

// New creates the API server of all types, in front of delegate. Its storage
// factory must be able to connect to etcd: the allocator of node ports makes a
// client of its own.
func New(cfg Config, delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	ranges, err := cfg.Options.ranges()
	if err != nil {
		return nil, err
	}
	server, err := workloads.New(workloads.Config{
		ControlPlane: cfg.ControlPlane, AllowPrivileged: cfg.Options.allowPrivileged, NodePorts: cfg.Options.nodePorts,
		ServiceIPs: ranges.primary, SecondaryServiceIPs: ranges.secondary, APIServerIP: ranges.apiServer, Shared: cfg.Shared,
	}, delegate)
	if err != nil {
		return nil, fmt.Errorf("create the API server of the profile kubernetes: %w", err)
	}
	return server, nil
}
