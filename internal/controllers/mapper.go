package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

// typeMapper is the RESTMapper of the controllers, over the types of the discoverer. It
// builds the mapper of a group at the first lookup in it. It is safe for concurrent
// use.
type typeMapper struct {
	types *discoverer

	mu      sync.Mutex
	mappers map[string]groupMapper
	changed <-chan struct{} // closed when whole is out of date
	whole   meta.RESTMapper // of all groups; nil until a lookup needs it
}

// groupMapper is the mapper of a group. It does not keep the types of other groups in
// memory, which may have been deleted.
type groupMapper struct {
	group  *restmapper.APIGroupResources
	mapper meta.RESTMapper
}

func newTypeMapper(types *discoverer) *typeMapper {
	return &typeMapper{types: types, mappers: map[string]groupMapper{}}
}

// Reset implements [meta.ResettableRESTMapper]. It does nothing: the mapper follows the
// discoverer, and a lookup that finds no type refreshes it.
func (m *typeMapper) Reset() {}

// mapperOf returns the mapper of a group. An empty group means all groups or the core
// group.
func (m *typeMapper) mapperOf(group string, emptyMeansAll bool) meta.RESTMapper {
	m.mu.Lock()
	defer m.mu.Unlock()
	if group == "" && emptyMeansAll {
		return m.ofAll()
	}
	current := m.types.group(group)
	if current == nil {
		delete(m.mappers, group)
		return restmapper.NewDiscoveryRESTMapper(nil)
	}
	known := m.mappers[group]
	if known.group != current {
		known = groupMapper{current, restmapper.NewDiscoveryRESTMapper([]*restmapper.APIGroupResources{current})}
		m.mappers[group] = known
	}
	return known.mapper
}

// ofAll returns the mapper of all groups. The caller holds mu.
func (m *typeMapper) ofAll() meta.RESTMapper {
	select {
	case <-m.changed: // nil before the first lookup
		m.whole = nil
	default:
	}
	if m.whole == nil {
		var all []*restmapper.APIGroupResources
		all, m.changed = m.types.all()
		m.whole = restmapper.NewDiscoveryRESTMapper(all)
	}
	return m.whole
}

// lookUp calls find with the mapper of the group, see mapperOf. If find finds no type, lookUp
// refreshes the types and calls it again.
func lookUp[T any](m *typeMapper, group string, emptyMeansAll bool, find func(meta.RESTMapper) (T, error)) (T, error) {
	found, err := find(m.mapperOf(group, emptyMeansAll))
	if meta.IsNoMatchError(err) {
		if failure := m.types.refresh(); failure != nil {
			return found, failure // the type may exist
		}
		found, err = find(m.mapperOf(group, emptyMeansAll))
	}
	return found, err
}

// KindFor implements [meta.RESTMapper].
func (m *typeMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return lookUp(m, resource.Group, resource.Version == "", func(in meta.RESTMapper) (schema.GroupVersionKind, error) { return in.KindFor(resource) })
}

// KindsFor implements [meta.RESTMapper].
func (m *typeMapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return lookUp(m, resource.Group, true, func(in meta.RESTMapper) ([]schema.GroupVersionKind, error) { return in.KindsFor(resource) })
}

// ResourceFor implements [meta.RESTMapper].
func (m *typeMapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return lookUp(m, resource.Group, true, func(in meta.RESTMapper) (schema.GroupVersionResource, error) { return in.ResourceFor(resource) })
}

// ResourcesFor implements [meta.RESTMapper].
func (m *typeMapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return lookUp(m, resource.Group, true, func(in meta.RESTMapper) ([]schema.GroupVersionResource, error) { return in.ResourcesFor(resource) })
}

// RESTMapping implements [meta.RESTMapper].
func (m *typeMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return lookUp(m, kind.Group, false, func(in meta.RESTMapper) (*meta.RESTMapping, error) { return in.RESTMapping(kind, versions...) })
}

// RESTMappings implements [meta.RESTMapper].
func (m *typeMapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return lookUp(m, kind.Group, false, func(in meta.RESTMapper) ([]*meta.RESTMapping, error) { return in.RESTMappings(kind, versions...) })
}

// ResourceSingularizer implements [meta.RESTMapper].
func (m *typeMapper) ResourceSingularizer(resource string) (string, error) {
	return lookUp(m, "", true, func(in meta.RESTMapper) (string, error) { return in.ResourceSingularizer(resource) })
}
