package crds

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// Types counts types that CRDs define.
type Types struct {
	// Installed is how many CRDs there are.
	Installed int `json:"installed"`
	// Populated is how many of them have objects.
	Populated int `json:"populated"`
	// Resident is how many have their serving machinery in memory, because they
	// are, or recently were, in use.
	Resident int `json:"resident"`
}

// Types counts the installed types, and those that have objects.
func (s *Server) Types(ctx context.Context) (Types, error) {
	all := s.catalog.all()
	resources := make([]schema.GroupResource, len(all))
	for i, crd := range all {
		resources[i] = schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
	}
	populated, _, err := s.population.Populated(ctx, resources)
	if err != nil {
		return Types{}, fmt.Errorf("count the types that have objects: %w", err)
	}
	return Types{Installed: len(all), Populated: len(populated), Resident: s.front.resident()}, nil
}

// ConversionWebhooks returns the server of each CRD whose versions a webhook converts:
// NAMESPACE/NAME of a service, or a URL.
func (s *Server) ConversionWebhooks() map[string]string {
	servers := map[string]string{}
	for _, crd := range s.catalog.all() {
		conversion := crd.Spec.Conversion
		if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
			continue
		}
		switch client := conversion.Webhook.ClientConfig; {
		case client.Service != nil:
			servers[crd.Name] = client.Service.Namespace + "/" + client.Service.Name
		case client.URL != nil:
			servers[crd.Name] = *client.URL
		}
	}
	return servers
}

// isResident reports whether a type is loaded, or is being loaded or released.
func (f *front) isResident(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.types[name]
	return t != nil && (t.loaded() || t.busy != nil)
}

// resident is the number of types that are loaded.
func (f *front) resident() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := 0
	for _, t := range f.types {
		if t.loaded() {
			count++
		}
	}
	return count
}

// Metrics are the numbers of types that are installed and whose serving machinery is built.
func (s *Server) Metrics() []prometheus.Collector {
	gauge := func(state, help string, value func() int) prometheus.Collector {
		options := prometheus.GaugeOpts{Name: "kube_hyper_mini_custom_types_" + state, Help: help}
		return prometheus.NewGaugeFunc(options, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		gauge("installed", "CustomResourceDefinitions that are stored.", s.catalog.size),
		gauge("resident", "Types of custom resources whose serving machinery is in memory: those with recent requests.",
			s.front.resident),
	}
}

// Versions returns the group versions that CRDs serve, in no order.
func (s *Server) Versions() []schema.GroupVersion { return servedVersions(s.catalog.all()) }

// VersionsOf returns the versions of a group that CRDs serve, in no order.
func (s *Server) VersionsOf(group string) []schema.GroupVersion {
	return servedVersions(s.catalog.group(group))
}

func servedVersions(crds []*apiextensionsv1.CustomResourceDefinition) []schema.GroupVersion {
	served := sets.Set[schema.GroupVersion]{}
	for _, crd := range crds {
		for _, version := range crd.Spec.Versions {
			if version.Served {
				served.Insert(schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name})
			}
		}
	}
	return served.UnsortedList()
}

// OnVersions calls changed for each group version of a CRD that has changed,
// until remove is called. changed must not block.
func (s *Server) OnVersions(changed func(schema.GroupVersion)) (remove func()) {
	return s.catalog.listen(func(before, after *apiextensionsv1.CustomResourceDefinition) {
		for _, crd := range []*apiextensionsv1.CustomResourceDefinition{before, after} {
			if crd == nil {
				continue
			}
			for _, version := range crd.Spec.Versions {
				changed(schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name})
			}
		}
	})
}

// AwaitAll waits until all CRDs have been read, and returns false if ctx ends
// before.
func (s *Server) AwaitAll(ctx context.Context) bool {
	return cache.WaitFor(ctx, "", s.filled.HasSyncedChecker())
}
