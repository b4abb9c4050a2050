package crds

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Types counts types that CRDs define.
type Types struct {
	// Installed is how many CRDs there are.
	Installed int
	// Populated is how many of them have objects.
	Populated int
}

// Types looks for one object of each type.
func (s *Server) Types(ctx context.Context) (Types, error) {
	types := Types{}
	for _, crd := range s.catalog.all() {
		types.Installed++
		resource := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}
		populated, err := s.front.populated(ctx, resource)
		if err != nil {
			return Types{}, fmt.Errorf("count the types that have objects: %w", err)
		}
		if populated {
			types.Populated++
		}
	}
	return types, nil
}

// isResident says whether a type has its serving machinery.
func (f *front) isResident(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.types[name]
	return t != nil && (t.built != nil || t.fetching > 0)
}

// resident is how many types have their serving machinery.
func (f *front) resident() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := 0
	for _, t := range f.types {
		if t.built != nil {
			count++
		}
	}
	return count
}

// Metrics are how many types are installed, and how many are ready to serve
// because they are, or recently were, in use.
func (s *Server) Metrics() []prometheus.Collector {
	gauge := func(state, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "kube_hyper_mini_custom_types_" + state, Help: help,
		}, func() float64 { return float64(value()) })
	}
	return []prometheus.Collector{
		gauge("installed", "CustomResourceDefinitions that are stored.", s.catalog.size),
		gauge("resident", "Types of custom resources that are in memory because they are, or recently were, in use.", s.front.resident),
	}
}
