package apiserver

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
)

// RemoteServers returns the state of the servers that APIServices and ServiceEndpoints name.
// Call it when the server is ready.
func (s *Server) RemoteServers() (endpoints.Remote, error) {
	remote := endpoints.Remote{ConversionWebhooks: s.crds.ConversionWebhooks()}
	services, err := s.remote.services.List(labels.Everything())
	if err != nil {
		return remote, fmt.Errorf("list APIServices: %w", err)
	}
	for _, service := range services {
		if service.Spec.Service == nil {
			continue
		}
		remote.APIServices++
		if available, message := availability(service); !available {
			remote.Failing = append(remote.Failing, endpoints.FailingRemote{Kind: "APIService",
				Name: service.Name, Reason: message})
		}
	}
	slices.SortFunc(remote.Failing, func(a, b endpoints.FailingRemote) int { return cmp.Compare(a.Name, b.Name) })
	states := s.remote.resolver.States()
	remote.ServiceEndpoints = len(states)
	for _, state := range states {
		if state.Reachable < state.Targets {
			remote.Failing = append(remote.Failing, endpoints.FailingRemote{
				Kind: "ServiceEndpoint", Namespace: state.Reference.Namespace, Name: state.Reference.Name, Reason: state.Failure,
			})
		}
	}
	return remote, nil
}

// availability returns whether the condition Available is true, and its message.
func availability(service *apiregistrationv1.APIService) (bool, string) {
	for _, condition := range service.Status.Conditions {
		if condition.Type == apiregistrationv1.Available {
			return condition.Status == apiregistrationv1.ConditionTrue, condition.Message
		}
	}
	return false, "it has not been checked yet"
}
