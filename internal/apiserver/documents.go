package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	openapiv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3controller "k8s.io/kube-aggregator/pkg/controllers/openapiv3"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-openapi/pkg/common"

	crdopenapi "kube-hyper-mini.io/kube-hyper-mini/internal/crds/openapi"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
)

const (
	// upstreamDiscoveryHook asks all remote servers for their discovery before
	// the server is ready, which holds up the start for 5 s if one does not
	// answer (discoveryManager.Run of k8s.io/kube-aggregator/pkg/apiserver).
	upstreamDiscoveryHook = "apiservice-discovery-controller"
	documentsHook         = "apiservice-documents"
	// hearing is how long a start waits for the discovery of remote servers.
	// One that has not answered by then is listed as stale until it does.
	hearing = 300 * time.Millisecond
)

// openAPIConfigs are what both versions of OpenAPI are built with.
type openAPIConfigs struct {
	v2 *common.Config
	v3 *common.OpenAPIV3Config
}

// withoutOpenAPI is the server that the aggregator delegates to. Upstream's
// aggregator takes the configuration of OpenAPI twice: for its generic server,
// which needs it, and then for its OpenAPI controllers, which ask remote
// servers while they hold locks that all OpenAPI requests wait for, for up to a
// minute (UpdateAPIServiceSpec of both aggregators). Between the two it asks its
// delegate for signals (completedConfig.NewWithDelegate), and there take takes
// the configuration away: without it there are no such controllers.
type withoutOpenAPI struct {
	genericapiserver.DelegationTarget
	take func()
}

// MuxAndDiscoveryCompleteSignals implements [genericapiserver.DelegationTarget].
func (d *withoutOpenAPI) MuxAndDiscoveryCompleteSignals() map[string]<-chan struct{} {
	d.take()
	return d.DelegationTarget.MuxAndDiscoveryCompleteSignals()
}

// takeOpenAPI prepares the aggregator's configuration and delegate for
// documents of our own.
func takeOpenAPI(config *aggregatorapiserver.Config, delegate genericapiserver.DelegationTarget) (*withoutOpenAPI, *openAPIConfigs) {
	taken := &openAPIConfigs{v2: config.GenericConfig.OpenAPIConfig, v3: config.GenericConfig.OpenAPIV3Config}
	config.GenericConfig.DisabledPostStartHooks.Insert(upstreamDiscoveryHook)
	return &withoutOpenAPI{DelegationTarget: delegate, take: func() {
		config.GenericConfig.OpenAPIConfig, config.GenericConfig.OpenAPIV3Config = nil, nil
	}}, taken
}

// documents merges what remote servers say about themselves into discovery and
// OpenAPI: upstream's parts, which ask copies instead of the servers.
type documents struct {
	copies  *endpoints.Documents
	sinks   endpoints.Sinks
	openAPI *lateOpenAPI
	build   func() error // of openAPI
}

// addDocuments is called before the aggregator prepares to run.
func addDocuments(aggregator *aggregatorapiserver.APIAggregator, copies *endpoints.Documents) (*documents, error) {
	server := aggregator.GenericAPIServer
	late := newLateOpenAPI()
	d := &documents{copies: copies, openAPI: late, sinks: endpoints.Sinks{OpenAPIV2: lateV2{late}, OpenAPIV3: lateV3{late}}}
	d.sinks.Discovery = aggregatorapiserver.NewDiscoveryManager(server.AggregatedDiscoveryGroupManager.WithSource(aggregated.AggregatorSource))
	return d, server.AddPostStartHook(documentsHook, d.run)
}

// addOpenAPI is called after the aggregator has prepared to run, when its
// delegates have their OpenAPI. It mirrors APIAggregator.PrepareRun, and leaves
// the building to a time when nobody waits for the server to be ready.
func (d *documents) addOpenAPI(server *genericapiserver.GenericAPIServer, taken *openAPIConfigs, definitions crdopenapi.Source) {
	late := d.openAPI
	d.build = func() (err error) {
		downloader := openapiv2.NewDownloader()
		late.v2, err = openapiv2.BuildAndRegisterAggregator(&downloader, server.NextDelegate(),
			server.Handler.GoRestfulContainer.RegisteredWebServices(), taken.v2, late.mux)
		if err != nil {
			return fmt.Errorf("merge OpenAPI v2: %w", err)
		}
		late.v3, err = openapiv3.BuildAndRegisterAggregator(openapiv3.NewDownloader(), server.NextDelegate(),
			server.Handler.GoRestfulContainer, taken.v3, late.mux)
		if err != nil {
			return fmt.Errorf("merge OpenAPI v3: %w", err)
		}
		return nil
	}
	serveOpenAPI(server.Handler.NonGoRestfulMux, crdopenapi.NewHandler(late, definitions, version.Kubernetes(), slog.Default()))
}

// keepOpenAPI builds the merged documents when they are wanted and keeps v3 of
// the delegates current until ctx ends.
func (d *documents) keepOpenAPI(ctx context.Context) {
	select {
	case <-d.openAPI.wanted:
		d.openAPI.err = d.build()
	case <-ctx.Done():
		d.openAPI.err = context.Cause(ctx)
	}
	close(d.openAPI.done)
	if d.openAPI.err == nil {
		openapiv3controller.NewAggregationController(d.openAPI.v3).RunWithContext(ctx)
	}
}

// run is the post-start hook. When it returns, discovery lists all remote
// APIServices.
func (d *documents) run(hook genericapiserver.PostStartHookContext) error {
	go d.keepOpenAPI(hook)
	go d.copies.Run(hook, d.sinks)
	select {
	case <-d.copies.Heard():
	case <-time.After(hearing):
	case <-hook.Done():
		return nil
	}
	synced := make(chan struct{})
	go d.sinks.Discovery.Run(hook.Done(), synced)
	select {
	case <-synced: // at once: it asks the copies
	case <-hook.Done():
	}
	return nil
}
