package controllers

import (
	"fmt"
	"log/slog"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// BenchmarkMapperAfterAChange: the first lookup after the CRDs of one of 204 groups of 12
// changed, with the mapper of that group and with one mapper of all groups.
func BenchmarkMapperAfterAChange(b *testing.B) {
	const groups, types = 204, 12
	describe := func(group string) *restmapper.APIGroupResources {
		version := metav1.GroupVersionForDiscovery{GroupVersion: group + "/v1", Version: "v1"}
		resources := &restmapper.APIGroupResources{
			Group:              metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version},
			VersionedResources: map[string][]metav1.APIResource{},
		}
		for i := range types {
			kind := fmt.Sprintf("Kind%d", i)
			resources.VersionedResources["v1"] = append(resources.VersionedResources["v1"],
				metav1.APIResource{Name: fmt.Sprintf("kind%ds", i), SingularName: fmt.Sprintf("kind%d", i), Kind: kind, Namespaced: true})
		}
		return resources
	}
	const changed = "group7.example.com"
	for name, lookUp := range map[string]func(*typeMapper) meta.RESTMapper{
		"of the group":  func(m *typeMapper) meta.RESTMapper { return m.mapperOf(changed, false) },
		"of all groups": func(m *typeMapper) meta.RESTMapper { return m.mapperOf("", true) },
	} {
		b.Run(name, func(b *testing.B) {
			d := newDiscoverer(nil, nil, slog.New(slog.DiscardHandler))
			d.byName = map[string]*restmapper.APIGroupResources{}
			for i := range groups {
				group := describe(fmt.Sprintf("group%d.example.com", i))
				d.groups, d.byName[group.Group.Name] = append(d.groups, group), group
			}
			m := newTypeMapper(d)
			b.ReportAllocs()
			for b.Loop() {
				d.byName[changed] = describe(changed)
				close(d.next)
				d.next = make(chan struct{})
				if _, err := lookUp(m).RESTMapping(schema.GroupKind{Group: changed, Kind: "Kind3"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
