package kube

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"
)

// Upstream fact: which APIServices are made for CRDs, and what each costs the aggregator
//
// Mirrors: k8s.io/kube-aggregator/pkg/apiserver.completedConfig.NewWithDelegate#LoopbackClientConfig
//   k8s.io/kube-aggregator/pkg/apiserver.APIAggregator.AddAPIService
//   k8s.io/apiserver/pkg/server/mux.PathRecorderMux.refreshMuxLocked
//   k8s.io/kube-aggregator/pkg/controllers/autoregister.manageContinuously
//   k8s.io/kubernetes/pkg/controlplane/controller/crdregistration.crdRegistrationController.handleVersionUpdate
//   k8s.io/kube-aggregator/pkg/controllers/autoregister.autoRegisterController.checkAPIService
//   k8s.io/kube-aggregator/pkg/apiserver.apisHandler.ServeHTTP
//   k8s.io/kube-aggregator/pkg/apiserver.apiGroupHandler.ServeHTTP
//   k8s.io/kube-aggregator/pkg/apiserver.convertToDiscoveryAPIGroup
// Why: each path that is added copies the whole mux, and the time of the controllers grows
//   with the square of the number of group versions. The paths of APIServices that are
//   managed for CRDs lead to the delegate, where requests go without them as well. The
//   aggregator's informer is private and is made from the loopback configuration, so its
//   requests leave these APIServices out. The client that registers the built-in groups is
//   made from it, too.
// Gain: of 2,452 CRDs, a warm start takes 2.0 s of processor time less (bench, crds;
//   trial).
// Breaks: APIServices of CRDs are missing in `/apis`, have another priority or label, or
//   are listed in another order, or the start is slow. Tests: TestListOfGroups,
//   TestAPIServicesOfDefinitions, TestGroupsOfDefinitions.

// managedForCRDs is the value of the label of APIServices that follow CRDs
// (manageContinuously of k8s.io/kube-aggregator/pkg/controllers/autoregister).
const managedForCRDs = "true"

// ManagedOnStart is the value of that label of the APIServices of built-in groups (manageOnStart there).
const ManagedOnStart = "onstart"

const apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

// CRDAPIServices selects the APIServices that are managed for CRDs.
func CRDAPIServices() map[string]string {
	return map[string]string{autoregister.AutoRegisterManagedLabel: managedForCRDs}
}

// LeaveOutCRDAPIServices has the informer of an aggregator that is created from config
// leave out the APIServices that are managed for CRDs. The aggregator writes those of the
// built-in groups with the token. Call restore when the aggregator has been created: the
// requests of its hooks are not filtered.
func LeaveOutCRDAPIServices(config *aggregatorapiserver.Config,
	token string) (restore func(*aggregatorapiserver.APIAggregator)) {
	whole := config.GenericConfig.LoopbackClientConfig
	filtered := rest.CopyConfig(whole)
	filtered.Wrap(func(next http.RoundTripper) http.RoundTripper { return apiServiceFilter{next, token} })
	config.GenericConfig.LoopbackClientConfig = filtered
	return func(aggregator *aggregatorapiserver.APIAggregator) {
		config.GenericConfig.LoopbackClientConfig = whole
		aggregator.GenericAPIServer.LoopbackClientConfig = whole
	}
}

// apiServiceFilter adds a label selector to lists and watches of APIServices, and the token
// to all requests: the server would replace its own token by one in the configuration.
type apiServiceFilter struct {
	next  http.RoundTripper
	token string
}

// RoundTrip implements [http.RoundTripper].
func (f apiServiceFilter) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+f.token)
	if request.Method == http.MethodGet && request.URL.Path == apiServicesPath {
		query := request.URL.Query()
		query.Set("labelSelector", autoregister.AutoRegisterManagedLabel+"!="+managedForCRDs)
		request.URL.RawQuery = query.Encode()
	}
	return f.next.RoundTrip(request)
}

// The priorities of the group versions of CRDs
// (crdRegistrationController.handleVersionUpdate).
const (
	crdGroupPriority   = 1000
	crdVersionPriority = 100
)

// CRDAPIService is the APIService of a group version that CRDs serve.
func CRDAPIService(gv schema.GroupVersion) *v1.APIService {
	return &v1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: APIServiceName(gv), Labels: CRDAPIServices()},
		Spec: v1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: crdGroupPriority,
			VersionPriority: crdVersionPriority},
	}
}

// APIServiceName is the name of the APIService of a group version.
func APIServiceName(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// DiscoveryGroup describes a group by its APIServices, of which the first is preferred.
func DiscoveryGroup(services []*v1.APIService) metav1.APIGroup {
	described := metav1.APIGroup{Name: services[0].Spec.Group}
	for _, service := range services {
		described.Versions = append(described.Versions, metav1.GroupVersionForDiscovery{
			GroupVersion: service.Spec.Group + "/" + service.Spec.Version, Version: service.Spec.Version,
		})
	}
	described.PreferredVersion = described.Versions[0]
	return described
}
