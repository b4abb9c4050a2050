package kube

import (
	"time"

	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	openapiv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
)

// Upstream fact: which parts request discovery and OpenAPI of remote servers
//
// Mirrors: k8s.io/kube-aggregator/pkg/apiserver.DiscoveryAggregationController
//   k8s.io/kube-aggregator/pkg/apiserver.discoveryManager.fetchFreshDiscoveryForService
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.SpecAggregator
//   k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.SpecProxier
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.Downloader.Download
// Why: the parts of Kubernetes that merge the documents send requests to the
//   servers while they hold locks that block all readers of the merged documents.
// Gain: with an aggregated server that does not answer, the slowest request
//   for OpenAPI takes 0.01 s instead of 60 s (bench, silent-remote).
// Breaks: documents of remote servers are missing or old. Tests:
//   TestDocumentsReachTheSinks, TestHangingAggregatedServer.

const (
	// DocumentsPeriod is the interval at which discovery and OpenAPI are requested.
	DocumentsPeriod = time.Minute
	// OpenAPITimeout bounds a request for OpenAPI (specDownloadTimeout): a server may
	// build the document at the first request.
	OpenAPITimeout = time.Minute
	// OpenAPIUser is the user of requests for OpenAPI.
	OpenAPIUser = "system:aggregator"
)

// Sinks are the parts that merge the documents of all API servers. They call a handler
// for each remote APIService, and hold locks meanwhile that block all readers of the
// merged documents.
type Sinks struct {
	Discovery aggregatorapiserver.DiscoveryAggregationController
	OpenAPIV2 openapiv2.SpecAggregator
	OpenAPIV3 openapiv3.SpecProxier
}

// ForgetOpenAPI removes the OpenAPI of an APIService from the merged documents.
func (s Sinks) ForgetOpenAPI(apiService string) {
	s.OpenAPIV2.RemoveAPIService(apiService)
	s.OpenAPIV3.RemoveAPIServiceSpec(apiService)
}
