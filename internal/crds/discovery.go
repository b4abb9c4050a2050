package crds

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	versions "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Upstream fact: the discovery of custom resources
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.DiscoveryController.sync
// Why: its controller registers handlers and documents for each group version,
//   and is not exported in parts.
// Gain: a new type is in discovery when its creation is answered, and a type
//   costs no handler.
// Breaks: discovery differs from kube-apiserver: verbs, categories, subresources
//   or the order of groups.

const (
	// groupPriority and versionPriority are those of DiscoveryController of
	// k8s.io/apiextensions-apiserver/pkg/apiserver.
	groupPriority   = 1000
	versionPriority = 100
)

// verbs are those of custom resources; a CRD that terminates has no verbs that write.
// Subresources have verbs of their own.
var (
	verbs            = metav1.Verbs{"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"}
	terminatingVerbs = metav1.Verbs{"delete", "deletecollection", "get", "list", "watch"}
	subresourceVerbs = metav1.Verbs{"get", "patch", "update"}
)

// groups serves the discovery of custom resources: /apis/GROUP and /apis/GROUP/VERSION
// from the catalog at each request, and /apis through the manager, which gets the
// changes before it answers. It is safe for concurrent use.
type groups struct {
	catalog  *catalog
	manager  aggregated.ResourceManager // with the source of CRDs
	delegate http.Handler

	flushing sync.Mutex
	mu       sync.Mutex
	dirty    map[schema.GroupVersion]bool
}

// changed is called after each change of the catalog.
func (g *groups) changed(before, after *apiextensionsv1.CustomResourceDefinition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{before, after} {
		if crd == nil {
			continue
		}
		for _, version := range crd.Spec.Versions {
			g.dirty[schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}] = true
		}
	}
}

// flush brings the manager up to date.
func (g *groups) flush() {
	g.flushing.Lock()
	defer g.flushing.Unlock()
	g.mu.Lock()
	dirty := g.dirty
	g.dirty = map[schema.GroupVersion]bool{}
	g.mu.Unlock()
	for gv := range dirty {
		served := g.served(gv)
		if len(served) == 0 {
			g.manager.RemoveGroupVersion(metav1.GroupVersion(gv))
			continue
		}
		g.manager.AddGroupVersion(gv.Group, aggregatedVersion(gv, served))
		g.manager.SetGroupVersionPriority(metav1.GroupVersion(gv), groupPriority, versionPriority)
	}
}

// served returns the established CRDs with a served version, by plural name.
func (g *groups) served(gv schema.GroupVersion) []*apiextensionsv1.CustomResourceDefinition {
	served := slices.DeleteFunc(g.catalog.group(gv.Group), func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) || !apiextensionshelpers.HasServedCRDVersion(crd, gv.Version)
	})
	slices.SortFunc(served, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(a.Status.AcceptedNames.Plural, b.Status.AcceptedNames.Plural)
	})
	return served
}

// group describes a group; it has no versions if none is served.
func (g *groups) group(name string) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	seen := map[string]bool{}
	for _, crd := range g.catalog.group(name) {
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

// ServeHTTP implements [http.Handler] for requests that are not for resources.
func (g *groups) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok {
		g.delegate.ServeHTTP(w, r)
		return
	}
	switch parts := strings.Split(strings.Trim(info.Path, "/"), "/"); len(parts) {
	case 2:
		if group := g.group(parts[1]); len(group.Versions) > 0 {
			discovery.NewAPIGroupHandler(apiextensionsapiserver.Codecs, group).ServeHTTP(w, r)
			return
		}
	case 3:
		gv := schema.GroupVersion{Group: parts[1], Version: parts[2]}
		if served := g.served(gv); len(served) > 0 {
			discovery.NewAPIVersionHandler(apiextensionsapiserver.Codecs, gv, discovery.APIResourceListerFunc(func() []metav1.APIResource {
				return resources(gv, served)
			})).ServeHTTP(w, r)
			return
		}
	}
	g.delegate.ServeHTTP(w, r)
}

// described is what both formats of discovery have about a type.
type described struct {
	names       apiextensionsv1.CustomResourceDefinitionNames
	namespaced  bool
	verbs       metav1.Verbs
	status      bool
	scale       bool
	storageHash string
}

func describe(gv schema.GroupVersion, crd *apiextensionsv1.CustomResourceDefinition) described {
	d := described{names: crd.Status.AcceptedNames, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped, verbs: verbs}
	if apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		d.verbs = terminatingVerbs
	}
	for _, version := range crd.Spec.Versions {
		if version.Served && version.Storage {
			d.storageHash = discovery.StorageVersionHash(gv.Group, version.Name, crd.Spec.Names.Kind)
		}
		if version.Name == gv.Version && version.Subresources != nil {
			d.status, d.scale = version.Subresources.Status != nil, version.Subresources.Scale != nil
		}
	}
	return d
}

// resources describes a version in the format without aggregation.
func resources(gv schema.GroupVersion, served []*apiextensionsv1.CustomResourceDefinition) []metav1.APIResource {
	out := make([]metav1.APIResource, 0, 2*len(served))
	for _, crd := range served {
		d := describe(gv, crd)
		out = append(out, metav1.APIResource{
			Name: d.names.Plural, SingularName: d.names.Singular, Namespaced: d.namespaced, Kind: d.names.Kind, Verbs: d.verbs,
			ShortNames: d.names.ShortNames, Categories: d.names.Categories, StorageVersionHash: d.storageHash,
		})
		if d.status {
			out = append(out, metav1.APIResource{
				Name: d.names.Plural + "/status", Namespaced: d.namespaced, Kind: d.names.Kind, Verbs: subresourceVerbs})
		}
		if d.scale {
			out = append(out, metav1.APIResource{
				Group: autoscalingv1.GroupName, Version: autoscalingv1.SchemeGroupVersion.Version, Kind: "Scale",
				Name: d.names.Plural + "/scale", Namespaced: d.namespaced, Verbs: subresourceVerbs})
		}
	}
	return out
}

// aggregatedVersion describes a version in the aggregated format.
func aggregatedVersion(gv schema.GroupVersion, served []*apiextensionsv1.CustomResourceDefinition) apidiscoveryv2.APIVersionDiscovery {
	version := apidiscoveryv2.APIVersionDiscovery{Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: gv.Version}
	for _, crd := range served {
		d := describe(gv, crd)
		kind := &metav1.GroupVersionKind{Group: gv.Group, Version: gv.Version, Kind: d.names.Kind}
		resource := apidiscoveryv2.APIResourceDiscovery{
			Resource: d.names.Plural, SingularResource: d.names.Singular, Scope: apidiscoveryv2.ScopeCluster, ResponseKind: kind,
			Verbs: d.verbs, ShortNames: d.names.ShortNames, Categories: d.names.Categories,
		}
		if d.namespaced {
			resource.Scope = apidiscoveryv2.ScopeNamespace
		}
		if d.status {
			resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: "status", ResponseKind: kind, Verbs: subresourceVerbs})
		}
		if d.scale {
			scale := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
			resource.Subresources = append(resource.Subresources, apidiscoveryv2.APISubresourceDiscovery{
				Subresource: "scale", Verbs: subresourceVerbs,
				ResponseKind: &metav1.GroupVersionKind{Group: scale.Group, Version: scale.Version, Kind: scale.Kind}})
		}
		version.Resources = append(version.Resources, resource)
	}
	return version
}

// Discovery is the manager of aggregated discovery that [New] gets: it receives the
// changes of CRDs before it answers.
type Discovery struct {
	aggregated.ResourceManager
	groups *groups
}

// NewDiscovery wraps a manager. Until [New] has been called with the result, it
// is the manager itself.
func NewDiscovery(manager aggregated.ResourceManager) *Discovery {
	return &Discovery{ResourceManager: manager}
}

// ServeHTTP implements [http.Handler].
func (d *Discovery) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.groups != nil {
		d.groups.flush()
	}
	d.ResourceManager.ServeHTTP(w, r)
}
