package kube

import (
	"time"

	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	openapiv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
)

// Upstream fact: when a remote APIService is available, and who requests its documents
//
// Mirrors: k8s.io/kube-aggregator/pkg/controllers/status/remote.AvailableConditionController.sync
//   k8s.io/kube-aggregator/pkg/controllers/status/remote.AvailableConditionController.updateAPIServiceStatus
//   k8s.io/kube-aggregator/pkg/controllers/status/metrics.Metrics
//   k8s.io/kube-aggregator/pkg/apiserver.DiscoveryAggregationController
//   k8s.io/kube-aggregator/pkg/apiserver.discoveryManager.fetchFreshDiscoveryForService
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.SpecAggregator
//   k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.SpecProxier
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.Downloader.Download
// Why: the controller of Kubernetes that sets the condition needs Services and
//   EndpointSlices. The parts that merge discovery and OpenAPI send requests to the servers
//   while they hold locks that block all readers of the merged documents.
// Gain: aggregated API servers can be used. With one that does not answer, the slowest
//   request for OpenAPI takes 0.01 s instead of 60 s (bench, silent-remote).
// Breaks: the condition means something else than with kube-apiserver, or documents of
//   remote servers are missing or old. Tests: TestUnavailableConditionNamesTheCause,
//   TestDocumentsReachTheSinks, TestHangingAggregatedServer.

const (
	// RecheckPeriod is the interval of the checks of a server that is available.
	RecheckPeriod = 30 * time.Second
	// CheckTimeout bounds a check.
	CheckTimeout = 5 * time.Second
	// DiscoveryUser is the user of a check and of requests for discovery, in the group
	// system:masters.
	DiscoveryUser = "system:kube-aggregator"
)

// Reasons of the Available condition.
const (
	ReasonNotFound  = "ServiceNotFound"      // the reference does not resolve
	ReasonDiscovery = "FailedDiscoveryCheck" // the answer is not discovery
	ReasonPassed    = "Passed"
)

// PassedCondition is the condition of a server that is available.
func PassedCondition() v1.APIServiceCondition {
	return v1.APIServiceCondition{Status: v1.ConditionTrue, Reason: ReasonPassed, Message: "all checks passed"}
}

// DiscoveryPath is what a check requests: the discovery path of the APIService's group version.
func DiscoveryPath(service *v1.APIService) string {
	if service.Spec.Group == "" {
		return "/api/" + service.Spec.Version
	}
	return "/apis/" + service.Spec.Group + "/" + service.Spec.Version
}

const (
	// DocumentsPeriod is the interval at which discovery and OpenAPI are requested.
	DocumentsPeriod = time.Minute
	// OpenAPITimeout bounds a request for OpenAPI (specDownloadTimeout): a server may
	// build the document at the first request.
	OpenAPITimeout = time.Minute
	// OpenAPIUser is the user of requests for OpenAPI.
	OpenAPIUser = "system:aggregator"
)

// OpenAPISinks are the parts that merge OpenAPI of all API servers. Like that for discovery, they
// call a handler for each remote APIService, and hold locks meanwhile that block all readers of
// the merged documents.
type OpenAPISinks struct {
	V2 openapiv2.SpecAggregator
	V3 openapiv3.SpecProxier
}
