package crds

import (
	"net/http"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
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

// changed is called after each change of a CRD of the group version.
func (g *groups) changed(gv schema.GroupVersion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dirty[gv] = true
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
		g.manager.AddGroupVersion(gv.Group, customresources.AggregatedVersion(gv, served))
		g.manager.SetGroupVersionPriority(metav1.GroupVersion(gv), customresources.GroupPriority,
			customresources.VersionPriority)
	}
}

// served returns the established CRDs with a served version, by plural name.
func (g *groups) served(gv schema.GroupVersion) []*apiextensionsv1.CustomResourceDefinition {
	return customresources.Served(gv, g.catalog.group(gv.Group))
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
		if group := customresources.Group(parts[1], g.catalog.group(parts[1])); len(group.Versions) > 0 {
			discovery.NewAPIGroupHandler(apiextensionsapiserver.Codecs, group).ServeHTTP(w, r)
			return
		}
	case 3:
		gv := schema.GroupVersion{Group: parts[1], Version: parts[2]}
		if served := g.served(gv); len(served) > 0 {
			discovery.NewAPIVersionHandler(apiextensionsapiserver.Codecs, gv,
				discovery.APIResourceListerFunc(func() []metav1.APIResource {
					return customresources.Resources(gv, served)
				})).ServeHTTP(w, r)
			return
		}
	}
	g.delegate.ServeHTTP(w, r)
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
