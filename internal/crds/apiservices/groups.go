package apiservices

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// groups answers the list of groups with the APIServices of the aggregator and those of
// CRDs. The handlers of the aggregator have the former only. It is safe for concurrent use.
type groups struct {
	source Source
	known  listers.APIServiceLister
}

// ServeGroups serves /apis of the aggregator, with the versions of CRDs in source.
func ServeGroups(source Source, aggregator *aggregatorapiserver.APIAggregator) {
	g := &groups{source: source, known: aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Lister()}
	server := aggregator.GenericAPIServer
	mux := server.Handler.NonGoRestfulMux
	mux.Unregister("/apis")
	mux.Unregister("/apis/")
	list := http.HandlerFunc(g.list)
	mux.Handle("/apis", aggregated.WrapAggregatedDiscoveryToHandler(list, server.AggregatedDiscoveryGroupManager,
		server.PeerAggregatedDiscoveryManager))
	mux.UnlistedHandle("/apis/", list)
}

// list answers /apis.
func (g *groups) list(w http.ResponseWriter, r *http.Request) {
	all, err := g.services()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	own := kube.DiscoveryGroup([]*v1.APIService{kube.CRDAPIService(v1.SchemeGroupVersion)}) // it has no APIService
	answer := &metav1.APIGroupList{Groups: []metav1.APIGroup{own}}
	for _, services := range helper.SortedByGroupAndVersion(all) {
		if services[0].Spec.Group != "" {
			answer.Groups = append(answer.Groups, kube.DiscoveryGroup(services))
		}
	}
	responsewriters.WriteObjectNegotiated(aggregatorscheme.Codecs, negotiation.DefaultEndpointRestrictions,
		schema.GroupVersion{}, w, r, http.StatusOK, answer, false)
}

// services returns the APIServices of the aggregator and those of the versions of CRDs.
func (g *groups) services() ([]*v1.APIService, error) {
	all, err := g.known.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list APIServices: %w", err)
	}
	known := make(map[string]bool, len(all))
	for _, service := range all {
		known[service.Name] = true
	}
	for _, gv := range g.source.Versions() {
		if !known[kube.APIServiceName(gv)] {
			all = append(all, kube.CRDAPIService(gv))
		}
	}
	return all, nil
}
