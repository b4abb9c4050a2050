package kube

import (
	"context"
	"fmt"
	"reflect"

	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// Upstream fact: post-start hooks can be left out by name only
//
// Mirrors: k8s.io/kubernetes/pkg/registry/rbac/rest.PolicyData.EnsureRBACPolicy
//   k8s.io/kubernetes/pkg/controlplane/apiserver.completedConfig.New#AddPostStartHook
//   k8s.io/kubernetes/pkg/registry/flowcontrol/rest.RESTStorageProvider.PostStartHook
//   k8s.io/kube-aggregator/pkg/apiserver.completedConfig.NewWithDelegate#apiservice-discovery-controller
//   k8s.io/kube-aggregator/pkg/apiserver.discoveryManager.Run
//   k8s.io/kube-aggregator/pkg/apiserver.APIAggregator#discoveryAggregationController
//   k8s.io/apiserver/pkg/server.GenericAPIServer.AddPostStartHook
//   k8s.io/apiserver/pkg/server.postStartHookEntry
//   k8s.io/apiserver/pkg/server.runPostStartHook
// Why: a hook that fails ends the process (klog.Fatal), which may hold other servers. That of
//   flow control fails when its server stops before it has written its objects, and writes
//   them also where it is off. The RBAC hook waits a second before its first attempt. The hook
//   for discovery waits up to 5 s for remote servers that do not answer. The identity lease is
//   for other servers, and its controller holds up the stop while the lease cannot be written,
//   unless its context ends first.
//   The tracking of legacy tokens has a watch of its own, for a cleaner that does not run here.
// Gain: without the wait of the RBAC hook a start takes a second less (bench, start;
//   trial); the warm start with a silent aggregated server takes half a second, and 23 s
//   with kube-apiserver (bench, silent-remote). Without the queue of the discovery hook, a
//   server that has stopped leaves no goroutines (bench, library). A server that fails does
//   not take the others in its process with it (TestFullDiskOfPlanes).
// Breaks: the hook has another name and runs beside its replacement, or a start fails
//   (DropDiscovery). TestHooksExist fails.

// Names of post-start hooks that Kubernetes does not export.
const (
	// IdentityLeaseHook keeps the identity lease of the server, IdentityLeaseGCHook collects those
	// of others.
	IdentityLeaseHook   = "start-kube-apiserver-identity-lease-controller"
	IdentityLeaseGCHook = "start-kube-apiserver-identity-lease-garbage-collector"
	// TokenTrackingHook writes a config map that only the cleaner of legacy tokens reads.
	TokenTrackingHook = "start-legacy-token-tracking-controller"
	// DiscoveryHook requests the discovery of remote servers.
	DiscoveryHook = "apiservice-discovery-controller"
	// DocumentsHook merges OpenAPI, and RemoteHook starts the availability controller. The
	// hooks that replace them have their names, and so their health checks.
	DocumentsHook = "apiservice-openapi-controller"
	RemoteHook    = "apiservice-status-remote-available-controller"
)

// GuardHooks hands failures of the server's post-start hooks to fail. A failure after the
// server has begun to stop is ignored. [IdentityLeaseHook] ends with ctx, the start of the stop:
// upstream's stop waits for its attempt to write, which has no end while etcd is away.
func GuardHooks(ctx context.Context, server *genericapiserver.GenericAPIServer, fail func(error)) error {
	hooks := reflect.ValueOf(server.PostStartHooks())
	for _, name := range hooks.MapKeys() {
		entry := reflect.New(hooks.Type().Elem())
		entry.Elem().Set(hooks.MapIndex(name))
		hook, err := upstream.Field[genericapiserver.PostStartHookFunc](entry.Interface(), "hook")
		if err != nil {
			return err
		}
		run := *hook
		*hook = func(hook genericapiserver.PostStartHookContext) error {
			if name.String() == IdentityLeaseHook {
				hook.Context = ctx
			}
			if err := run(hook); err != nil && hook.Err() == nil {
				fail(fmt.Errorf("the post-start hook %s failed: %w", name, err))
				<-hook.Done() // it must not count as done
			}
			return nil
		}
		hooks.SetMapIndex(name, entry.Elem())
	}
	return nil
}

// DropDiscovery takes the controller of [DiscoveryHook] from the aggregator, and ends its queue.
func DropDiscovery(aggregator *aggregatorapiserver.APIAggregator) error {
	controller, err := upstream.Field[aggregatorapiserver.DiscoveryAggregationController](aggregator,
		"discoveryAggregationController")
	if err != nil {
		return err
	}
	if *controller != nil {
		ended := make(chan struct{})
		close(ended)
		(*controller).Run(ended, nil)
	}
	*controller = nil
	return nil
}
