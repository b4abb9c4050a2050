package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// typeMapper is the RESTMapper of the controllers, over the types of the discoverer. It is
// safe for concurrent use.
type typeMapper struct {
	types *discoverer

	mu      sync.Mutex
	current meta.RESTMapper // nil before the first lookup
	changed <-chan struct{} // closed when current is out of date
}

// Reset implements [meta.ResettableRESTMapper]. It does nothing: the mapper follows the
// discoverer, and a lookup that finds no type refreshes it.
func (m *typeMapper) Reset() {}

// mapper returns the mapper of the types that the discoverer has now.
func (m *typeMapper) mapper() meta.RESTMapper {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.changed: // nil before the first lookup
		m.current = nil
	default:
	}
	if m.current == nil {
		var all []*restmapper.APIGroupResources
		all, m.changed = m.types.all()
		m.current = restmapper.NewDiscoveryRESTMapper(all)
	}
	return m.current
}

// lookUp calls find. If that finds no type, lookUp refreshes the types and calls it again.
func lookUp[T any](m *typeMapper, find func(meta.RESTMapper) (T, error)) (T, error) {
	found, err := find(m.mapper())
	if meta.IsNoMatchError(err) {
		if failure := m.types.refresh(); failure != nil {
			return found, failure // the type may exist
		}
		found, err = find(m.mapper())
	}
	return found, err
}

// KindFor implements [meta.RESTMapper].
func (m *typeMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return lookUp(m, func(in meta.RESTMapper) (schema.GroupVersionKind, error) { return in.KindFor(resource) })
}

// KindsFor implements [meta.RESTMapper].
func (m *typeMapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return lookUp(m, func(in meta.RESTMapper) ([]schema.GroupVersionKind, error) { return in.KindsFor(resource) })
}

// ResourceFor implements [meta.RESTMapper].
func (m *typeMapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return lookUp(m, func(in meta.RESTMapper) (schema.GroupVersionResource, error) { return in.ResourceFor(resource) })
}

// ResourcesFor implements [meta.RESTMapper].
func (m *typeMapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return lookUp(m, func(in meta.RESTMapper) ([]schema.GroupVersionResource, error) { return in.ResourcesFor(resource) })
}

// RESTMapping implements [meta.RESTMapper].
func (m *typeMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return lookUp(m, func(in meta.RESTMapper) (*meta.RESTMapping, error) { return in.RESTMapping(kind, versions...) })
}

// RESTMappings implements [meta.RESTMapper].
func (m *typeMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return lookUp(m, func(in meta.RESTMapper) ([]*meta.RESTMapping, error) { return in.RESTMappings(kind, versions...) })
}

// ResourceSingularizer implements [meta.RESTMapper].
func (m *typeMapper) ResourceSingularizer(resource string) (string, error) {
	return lookUp(m, func(in meta.RESTMapper) (string, error) { return in.ResourceSingularizer(resource) })
}
