package kube

import (
	"time"

	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Upstream fact: when a remote APIService is available
//
// Mirrors: k8s.io/kube-aggregator/pkg/controllers/status/remote.AvailableConditionController.sync
//   k8s.io/kube-aggregator/pkg/controllers/status/remote.AvailableConditionController.updateAPIServiceStatus
//   k8s.io/kube-aggregator/pkg/controllers/status/metrics.Metrics
// Why: the controller of Kubernetes needs Services and EndpointSlices.
// Gain: aggregated API servers can be used.
// Breaks: the condition means something else than with kube-apiserver. Tests:
//   TestUnavailableConditionNamesTheCause.

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
