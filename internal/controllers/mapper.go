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
	changed <-chan struct{} // closed when the mappers are out of date
	groups  map[string]*restmapper.APIGroupResources
	mappers map[string]meta.RESTMapper
	whole   meta.RESTMapper // of all groups; nil until a lookup needs it
}

func newTypeMapper(types *discoverer) *typeMapper { return &typeMapper{types: types} }

// Reset implements [meta.ResettableRESTMapper]. It does nothing: the mapper follows the
// discoverer, and a lookup that finds no type refreshes it.
func (m *typeMapper) Reset() {}

// of returns the mapper of a group. With open, an empty group means all groups;
// otherwise it means the core group.
func (m *typeMapper) of(group string, open bool) meta.RESTMapper {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renew()
	if group == "" && open {
		if m.whole == nil {
			all, _ := m.types.all()
			m.whole = restmapper.NewDiscoveryRESTMapper(all)
		}
		return m.whole
	}
	if m.groups[group] == nil {
		return restmapper.NewDiscoveryRESTMapper(nil)
	}
	if m.mappers[group] == nil {
		m.mappers[group] = restmapper.NewDiscoveryRESTMapper([]*restmapper.APIGroupResources{m.groups[group]})
	}
	return m.mappers[group]
}

// renew drops the mappers if the types have changed. The caller holds mu.
func (m *typeMapper) renew() {
	select {
	case <-m.changed: // nil before the first lookup
	default:
		if m.changed != nil {
			return
		}
	}
	groups, changed := m.types.all()
	m.changed, m.groups, m.mappers, m.whole = changed, make(map[string]*restmapper.APIGroupResources, len(groups)), map[string]meta.RESTMapper{}, nil
	for _, group := range groups {
		m.groups[group.Group.Name] = group
	}
}

// lookUp calls find with the mapper of the group. If find finds no type, lookUp
// refreshes the types and calls it again.
func lookUp[T any](m *typeMapper, group string, open bool, find func(meta.RESTMapper) (T, error)) (T, error) {
	found, err := find(m.of(group, open))
	if meta.IsNoMatchError(err) {
		if failure := m.types.refresh(); failure != nil {
			return found, failure // the type may exist
		}
		found, err = find(m.of(group, open))
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
