package kube

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// Upstream fact: the version in which a controller sees a type
//
// Mirrors: k8s.io/client-go/discovery.ServerPreferredResources
// Why: the library's function queries the server for each controller, and returns the types
//   in random order.
// Gain: one query of discovery for all controllers.
// Breaks: garbage collector, quota and namespace deletion follow a type in another version
//   than kube-controller-manager. TestPreferredResources fails.

// PreferredResources lists each resource once, in the preferred version of its group, or
// in the first version that has it, in the order of the groups. It does not list versions
// without resources. The groups have no subresources.
func PreferredResources(groups []*restmapper.APIGroupResources) []*metav1.APIResourceList {
	var lists []*metav1.APIResourceList
	for _, group := range groups {
		seen := map[string]bool{}
		take := func(version string) {
			list := &metav1.APIResourceList{GroupVersion: schema.GroupVersion{Group: group.Group.Name, Version: version}.String()}
			for _, resource := range group.VersionedResources[version] {
				if !seen[resource.Name] {
					seen[resource.Name] = true
					list.APIResources = append(list.APIResources, resource)
				}
			}
			if len(list.APIResources) > 0 {
				lists = append(lists, list)
			}
		}
		take(group.Group.PreferredVersion.Version)
		for _, version := range group.Group.Versions {
			take(version.Version)
		}
	}
	return lists
}
