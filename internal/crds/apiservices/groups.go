package apiservices

import (
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
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

// Groups answers the discovery of groups with the APIServices of the aggregator and
// those of CRDs. The handlers of the aggregator have the former only. It is safe for
// concurrent use; a nil Groups answers nothing.
type Groups struct {
	source Source
	known  listers.APIServiceLister
}

// NewGroups serves /apis of the aggregator.
func NewGroups(source Source, aggregator *aggregatorapiserver.APIAggregator) *Groups {
	g := &Groups{source: source, known: aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Lister()}
	server := aggregator.GenericAPIServer
	mux := server.Handler.NonGoRestfulMux
	mux.Unregister("/apis")
	mux.Unregister("/apis/")
	list := http.HandlerFunc(g.list)
	mux.Handle("/apis", aggregated.WrapAggregatedDiscoveryToHandler(list, server.AggregatedDiscoveryGroupManager,
		server.PeerAggregatedDiscoveryManager))
	mux.UnlistedHandle("/apis/", list)
	return g
}

// list answers /apis.
func (g *Groups) list(w http.ResponseWriter, r *http.Request) {
	all, err := g.services(g.source.Versions())
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
	write(w, r, answer)
}

// Answer answers /apis/GROUP if both CRDs and other APIServices have versions of
// the group, and reports whether it did.
func (g *Groups) Answer(w http.ResponseWriter, r *http.Request) bool {
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/")
	name := strings.TrimSuffix(path, "/")
	if g == nil || !ok || name == "" || strings.Contains(name, "/") {
		return false
	}
	services := g.shared(name)
	if services == nil {
		return false
	}
	answer := kube.DiscoveryGroup(services)
	write(w, r, &answer)
	return true
}

// shared returns the APIServices of a group that has versions of CRDs and
// others; otherwise nil.
func (g *Groups) shared(name string) []*v1.APIService {
	all, err := g.services(g.source.VersionsOf(name))
	if err != nil {
		return nil
	}
	var services []*v1.APIService
	managed := 0
	for _, service := range all {
		if service.Spec.Group != name {
			continue
		}
		services = append(services, service)
		if service.UID == "" { // of kube.CRDAPIService
			managed++
		}
	}
	if managed == 0 || managed == len(services) {
		return nil
	}
	return helper.SortedByGroupAndVersion(services)[0]
}

// services returns the APIServices of the aggregator and those of the versions of CRDs.
func (g *Groups) services(versions []schema.GroupVersion) ([]*v1.APIService, error) {
	all, err := g.known.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list APIServices: %w", err)
	}
	known := make(map[string]bool, len(all))
	for _, service := range all {
		known[service.Name] = true
	}
	for _, gv := range versions {
		if !known[kube.APIServiceName(gv)] {
			all = append(all, kube.CRDAPIService(gv))
		}
	}
	return all, nil
}

func write(w http.ResponseWriter, r *http.Request, answer runtime.Object) {
	responsewriters.WriteObjectNegotiated(aggregatorscheme.Codecs, negotiation.DefaultEndpointRestrictions,
		schema.GroupVersion{}, w, r, http.StatusOK, answer, false)
}
