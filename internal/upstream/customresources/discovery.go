package customresources

import (
	"cmp"
	"slices"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	versions "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
)

// Upstream fact: the discovery of custom resources
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync
// Why: its controller registers handlers and documents for each group version,
//   and is not exported in parts.
// Gain: no optimisation: a new type is in discovery when its creation is answered. (See the
//   row about CRDs without schemas in ARCHITECTURE.md for what the server of custom resources
//   gains as a whole.)
// Breaks: discovery differs from kube-apiserver: verbs, categories, subresources or
//   the order of groups. Tests: TestGroupsOfDefinitions, TestCustomResourceDefinition.

const (
	// GroupPriority and VersionPriority are those of DiscoveryController of
	// k8s.io/apiextensions-apiserver/pkg/apiserver.
	GroupPriority   = 1000
	VersionPriority = 100
)

// verbs are those of custom resources; a CRD that terminates has no verbs that write.
// Subresources have verbs of their own.
var (
	verbs            = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	terminatingVerbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	subresourceVerbs = metav1.Verbs{"get", "patch", "update"}
)

// Served returns the established CRDs of a group that serve the version, by plural name.
// It changes the slice.
func Served(gv schema.GroupVersion,
	group []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	served := slices.DeleteFunc(group, func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) ||
			!apiextensionshelpers.HasServedCRDVersion(crd, gv.Version)
	})
	slices.SortFunc(served, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(a.Status.AcceptedNames.Plural, b.Status.AcceptedNames.Plural)
	})
	return served
}

// Group describes a group by its CRDs; it has no versions if none is served.
func Group(name string, crds []*apiextensionsv1.CustomResourceDefinition) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	seen := map[string]bool{}
	for _, crd := range crds {
		if !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			continue
		}
		for _, version := range crd.Spec.Versions {
			if version.Served && !seen[version.Name] {
				seen[version.Name] = true
				group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{
					GroupVersion: name + "/" + version.Name, Version: version.Name})
			}
		}
	}
	slices.SortFunc(group.Versions, func(a, b metav1.GroupVersionForDiscovery) int {
		return versions.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	if len(group.Versions) > 0 {
		group.PreferredVersion = group.Versions[0]
	}
	return group
}

// Resources describes a version in the format without aggregation.
func Resources(gv schema.GroupVersion, served []*apiextensionsv1.CustomResourceDefinition) []metav1.APIResource {
	out := make([]metav1.APIResource, 0, 2*len(served))
	for _, crd := range served {
		names, namespaced := crd.Status.AcceptedNames, crd.Spec.Scope == apiextensionsv1.NamespaceScoped
		resource := metav1.APIResource{
			Name: names.Plural, SingularName: names.Singular, Namespaced: namespaced, Kind: names.Kind, Verbs: verbs,
			ShortNames: names.ShortNames, Categories: names.Categories,
		}
		if apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
			resource.Verbs = terminatingVerbs
		}
		var subresources *apiextensionsv1.CustomResourceSubresources
		for _, version := range crd.Spec.Versions {
			if version.Served && version.Storage {
				resource.StorageVersionHash = discovery.StorageVersionHash(gv.Group, version.Name, crd.Spec.Names.Kind)
			}
			if version.Name == gv.Version {
				subresources = version.Subresources
			}
		}
		out = append(out, resource)
		if subresources != nil && subresources.Status != nil {
			out = append(out, metav1.APIResource{
				Name: names.Plural + "/status", Namespaced: namespaced, Kind: names.Kind, Verbs: subresourceVerbs})
		}
		if subresources != nil && subresources.Scale != nil {
			out = append(out, metav1.APIResource{
				Group: autoscalingv1.GroupName, Version: autoscalingv1.SchemeGroupVersion.Version, Kind: "Scale",
				Name: names.Plural + "/scale", Namespaced: namespaced, Verbs: subresourceVerbs})
		}
	}
	return out
}

// AggregatedVersion describes a version in the aggregated format.
func AggregatedVersion(gv schema.GroupVersion,
	served []*apiextensionsv1.CustomResourceDefinition) apidiscoveryv2.APIVersionDiscovery {
	resources := Resources(gv, served)
	for i := range resources {
		if r := &resources[i]; r.Group == "" { // in this format each kind has a group
			r.Group, r.Version = gv.Group, gv.Version
		}
	}
	// An error means that a subresource has another scope than its resource.
	converted, _ := endpoints.ConvertGroupVersionIntoToDiscovery(resources)
	return apidiscoveryv2.APIVersionDiscovery{Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: gv.Version,
		Resources: converted}
}
