package kube

import (
	"fmt"
	"net/http"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	openapiv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
	"k8s.io/kube-openapi/pkg/common"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// Upstream fact: OpenAPI documents are built while the servers prepare to run
//
// Mirrors: k8s.io/kube-aggregator/pkg/apiserver.completedConfig.NewWithDelegate#OpenAPI
//   k8s.io/kube-aggregator/pkg/apiserver.APIAggregator.PrepareRun
//   k8s.io/kube-aggregator/pkg/apiserver.APIAggregator#openAPI
//   k8s.io/apiserver/pkg/server.completedConfig.New#openAPIConfig
//   k8s.io/apiserver/pkg/server.GenericAPIServer#openAPI
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.specAggregator.UpdateAPIServiceSpec
//   k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.specProxier.UpdateAPIServiceSpec
//   k8s.io/apiserver/pkg/server.GenericAPIServer.PrepareRun
//   k8s.io/apiserver/pkg/server/routes.OpenAPI
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.BuildAndRegisterAggregator
//   k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.BuildAndRegisterAggregator
// Why: a start waits for the documents of all built-in types, which a client requests
//   later, if at all, and the options of Kubernetes have "skip" only. The aggregator has the
//   configuration twice: that of its generic server stays, which needs it; the other one is
//   for its OpenAPI controllers, which send requests to remote servers while they hold locks
//   that block all requests for OpenAPI.
// Gain: a cold start takes 0.35 s of processor time instead of 0.58 s, a warm one 0.28 s
//   instead of 0.37 s (bench, start; trial); with an aggregated server that does not
//   answer, the slowest request for OpenAPI takes 0.01 s instead of 60 s (bench,
//   silent-remote).
// Breaks: a document is missing at /openapi, or is served twice, the OpenAPI controllers
//   run, or managed fields of APIServices are deduced without schemas. TakeOpenAPI fails the
//   start if a field has another name. Tests: TestServerSideApply, TestReadme.

// OpenAPIConfigs are what both versions of OpenAPI are built with.
type OpenAPIConfigs struct {
	V2 *common.Config
	V3 *common.OpenAPIV3Config
}

// TakeOpenAPI returns the OpenAPI configuration of the aggregator, which has none then. Call it
// before the aggregator prepares to run: it installs neither documents nor their controllers.
func TakeOpenAPI(aggregator *aggregatorapiserver.APIAggregator) (OpenAPIConfigs, error) {
	v2, err := upstream.Field[*common.Config](aggregator, "openAPIConfig")
	if err != nil {
		return OpenAPIConfigs{}, err
	}
	v3, err := upstream.Field[*common.OpenAPIV3Config](aggregator, "openAPIV3Config")
	if err != nil {
		return OpenAPIConfigs{}, err
	}
	taken := OpenAPIConfigs{V2: *v2, V3: *v3}
	*v2, *v3 = nil, nil
	return taken, nil
}

// BuildOpenAPI builds the documents of a server whose configuration has
// SkipOpenAPIInstallation, and returns their handler.
func BuildOpenAPI(server *genericapiserver.GenericAPIServer, configs OpenAPIConfigs) http.Handler {
	paths := mux.NewPathRecorderMux("openapi")
	documents := routes.OpenAPI{Config: configs.V2, V3Config: configs.V3}
	documents.InstallV2(server.Handler.GoRestfulContainer, paths)
	documents.InstallV3(server.Handler.GoRestfulContainer, paths)
	return paths
}

// MergeOpenAPI builds the documents of the aggregator, which merge those of its
// delegates with its own, and serves them on paths. Remote servers are added to
// what it returns. Call it after the aggregator has prepared to run.
func MergeOpenAPI(aggregator *genericapiserver.GenericAPIServer, configs OpenAPIConfigs,
	paths *mux.PathRecorderMux) (openapiv2.SpecAggregator, openapiv3.SpecProxier, error) {
	downloader := openapiv2.NewDownloader()
	v2, err := openapiv2.BuildAndRegisterAggregator(&downloader, aggregator.NextDelegate(),
		aggregator.Handler.GoRestfulContainer.RegisteredWebServices(), configs.V2, paths)
	if err != nil {
		return nil, nil, fmt.Errorf("merge OpenAPI v2: %w", err)
	}
	v3, err := openapiv3.BuildAndRegisterAggregator(openapiv3.NewDownloader(), aggregator.NextDelegate(),
		aggregator.Handler.GoRestfulContainer, configs.V3, paths)
	if err != nil {
		return nil, nil, fmt.Errorf("merge OpenAPI v3: %w", err)
	}
	return v2, v3, nil
}
