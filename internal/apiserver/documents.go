package apiserver

import (
	"context"
	"log/slog"

	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	openapiv3controller "k8s.io/kube-aggregator/pkg/controllers/openapiv3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/aggregation"
	crdopenapi "kube-hyper-mini.io/kube-hyper-mini/internal/crds/openapi"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

// documents merges discovery and OpenAPI of remote API servers into the aggregator's.
// Upstream's code does that; it reads copies instead of the remote servers.
type documents struct {
	copies  *aggregation.Documents
	sinks   aggregation.Sinks
	openAPI *lazyOpenAPI
	build   func() error // of openAPI
}

// addDocuments is called before the aggregator prepares to run.
func addDocuments(aggregator *aggregatorapiserver.APIAggregator, copies *aggregation.Documents) (*documents, error) {
	server := aggregator.GenericAPIServer
	openAPI := newLazyOpenAPI()
	d := &documents{copies: copies, openAPI: openAPI, sinks: aggregation.Sinks{OpenAPI: openAPI.awaitSinks}}
	d.sinks.Discovery = aggregatorapiserver.NewDiscoveryManager(
		server.AggregatedDiscoveryGroupManager.WithSource(aggregated.AggregatorSource))
	return d, server.AddPostStartHook(kube.DocumentsHook, d.run)
}

// addOpenAPI is called after the aggregator has prepared to run: its delegates have their
// OpenAPI then. The documents are built later, see lazyOpenAPI.
func (d *documents) addOpenAPI(server *genericapiserver.GenericAPIServer, taken kube.OpenAPIConfigs,
	definitions crdopenapi.Source, policies *mutatingPolicies, log *slog.Logger) {
	lazy := d.openAPI
	d.build = func() (err error) {
		lazy.sinks.V2, lazy.sinks.V3, err = kube.MergeOpenAPI(server, taken, lazy.mux)
		return err
	}
	handler := crdopenapi.NewHandler(lazy, definitions, version.Kubernetes(), log)
	serveOpenAPI(server.Handler.NonGoRestfulMux, policies.observe(lazy, handler))
}

// keepOpenAPI builds the merged documents at the first request and keeps v3 of the
// delegates current until ctx ends.
func (d *documents) keepOpenAPI(ctx context.Context) {
	select {
	case <-d.openAPI.buildRequested:
		d.openAPI.err = d.build()
	case <-ctx.Done():
		d.openAPI.err = context.Cause(ctx)
	}
	close(d.openAPI.built)
	if err := d.openAPI.err; err != nil {
		if ctx.Err() == nil {
			slog.Error("building the OpenAPI documents failed: requests for them get the error until a restart", "error", err)
		}
		return
	}
	openapiv3controller.NewAggregationController(d.openAPI.sinks.V3).RunWithContext(ctx)
}

// run is the post-start hook. When it returns, discovery lists all remote
// APIServices.
func (d *documents) run(hook genericapiserver.PostStartHookContext) error {
	go d.keepOpenAPI(hook)
	go d.copies.Run(hook, d.sinks)
	select {
	case <-d.copies.Listed():
	case <-hook.Done():
		return nil
	}
	synced := make(chan struct{})
	go d.sinks.Discovery.Run(hook.Done(), synced)
	select {
	case <-synced: // soon, because it reads the copies
	case <-hook.Done():
	}
	return nil
}
