package kubernetes

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/capabilities"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// New creates the API server of all types, in front of delegate. c is the configuration of the
// native API server, which it changes. Shared means that several servers may use the etcd. The
// storage factory must be able to connect to etcd: the allocator of node ports makes a client of
// its own.
func New(c *controlplaneapiserver.Config, o *Options, shared bool,
	delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	services, err := o.services()
	if err != nil {
		return nil, err
	}
	capabilities.Setup(o.allowPrivileged, 0)
	server, err := workloads.New(c, services, shared, delegate)
	if err != nil {
		return nil, fmt.Errorf("create the API server of the profile kubernetes: %w", err)
	}
	return server, nil
}
