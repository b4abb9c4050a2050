package kube_test

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// fixedDiscovery is a server with fixed types.
type fixedDiscovery struct {
	discovery.AggregatedDiscoveryInterface
	groups []*restmapper.APIGroupResources
}

// GroupsAndMaybeResources implements [discovery.AggregatedDiscoveryInterface].
func (f fixedDiscovery) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	list, resources := &metav1.APIGroupList{}, map[schema.GroupVersion]*metav1.APIResourceList{}
	for _, group := range f.groups {
		list.Groups = append(list.Groups, group.Group)
		for version, served := range group.VersionedResources {
			gv := schema.GroupVersion{Group: group.Group.Name, Version: version}
			resources[gv] = &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: served}
		}
	}
	return list, resources, nil, nil
}

// versions returns the version of each resource.
func versions(t *testing.T, lists []*metav1.APIResourceList) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if found[resource.Name] != "" {
				t.Errorf("%s is listed twice", resource.Name)
			}
			found[resource.Name] = list.GroupVersion + " " + resource.Kind
		}
	}
	return found
}

// TestPreferredResources: the versions are those that client-go prefers.
func TestPreferredResources(t *testing.T) {
	group := func(name, preferred string, served map[string][]string, order ...string) *restmapper.APIGroupResources {
		g := &restmapper.APIGroupResources{Group: metav1.APIGroup{Name: name}, VersionedResources: map[string][]metav1.APIResource{}}
		for _, version := range order {
			g.Group.Versions = append(g.Group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version})
			for _, resource := range served[version] {
				g.VersionedResources[version] = append(g.VersionedResources[version], metav1.APIResource{Name: resource, Kind: version})
			}
		}
		g.Group.PreferredVersion = metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + preferred, Version: preferred}
		return g
	}
	groups := []*restmapper.APIGroupResources{
		group("first.example.com", "v1", map[string][]string{"v1": {"a"}, "v1beta1": {"a", "b"}}, "v1", "v1beta1"),
		group("later.example.com", "v2", map[string][]string{"v1": {"c", "d", "e"}, "v2": {"c"}, "v3": {"c", "d", "f"}}, "v3", "v2", "v1"),
		group("unreachable.example.com", "v2", map[string][]string{"v1": {"g"}}, "v2", "v1"),
	}
	want, err := discovery.ServerPreferredResources(fixedDiscovery{groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := versions(t, kube.PreferredResources(groups)), versions(t, want); !reflect.DeepEqual(got, want) || len(got) != 7 {
		t.Errorf("%v, and client-go prefers %v", got, want)
	}
}
