package history

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Type is a type of objects.
type Type struct {
	schema.GroupResource
	// Kind is empty for a type that the server does not have.
	Kind string
	// Namespaced is false for a type that the server does not have.
	Namespaced bool
}

// GroupKind returns the group and the kind.
func (t Type) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: t.Group, Kind: t.Kind}
}

// Resolve finds the type that a user names as kubectl does: by resource, singular,
// short name or kind, each optionally with version and group. A type that the server
// does not have can be named by RESOURCE.GROUP; its Kind is empty then.
func Resolve(mapper meta.RESTMapper, name string) (Type, error) {
	mapping, err := mappingFor(mapper, name)
	switch {
	case err == nil:
		return Type{GroupResource: mapping.Resource.GroupResource(), Kind: mapping.GroupVersionKind.Kind,
			Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
	case !meta.IsNoMatchError(err):
		return Type{}, fmt.Errorf("ask the server for its types: %w", err)
	}
	if resource := schema.ParseGroupResource(strings.ToLower(name)); strings.Contains(resource.Group, ".") {
		return Type{GroupResource: resource}, nil
	}
	return Type{}, fmt.Errorf("the server has no type %q; name a type that is gone as RESOURCE.GROUP, for example "+
		"widgets.example.com", name)
}

// mappingFor tries the name as a resource, then as a kind.
func mappingFor(mapper meta.RESTMapper, name string) (*meta.RESTMapping, error) {
	versioned, resource := schema.ParseResourceArg(name)
	if versioned != nil {
		if gvk, err := mapper.KindFor(*versioned); err == nil {
			return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		}
	}
	gvk, err := mapper.KindFor(resource.WithVersion(""))
	if err == nil {
		return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	mapping, kindErr := mapper.RESTMapping(schema.ParseGroupKind(name))
	if kindErr != nil && !meta.IsNoMatchError(err) {
		return nil, err
	}
	return mapping, kindErr
}

// Object names an object.
type Object struct {
	Type
	// Namespace is empty for an object of the cluster.
	Namespace, Name string
}

// String is the object as kubectl names it: RESOURCE/NAME, with the namespace.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.GroupResource.String() + "/" + o.Name
	}
	return fmt.Sprintf("%s/%s in namespace %s", o.GroupResource, o.Name, o.Namespace)
}

// suffix is the end of each key under which the object may be stored.
func (o Object) suffix() string {
	if o.Namespace == "" {
		return "/" + o.Name
	}
	return "/" + o.Namespace + "/" + o.Name
}

// mayHave reports whether the object may be stored under the key.
func (o Object) mayHave(prefix, key string) bool {
	rest, below := strings.CutPrefix(key, prefix)
	if o.Kind == "" {
		return below && o.hasUsualKey(rest)
	}
	return below && strings.HasSuffix(rest, o.suffix())
}

// isBuiltIn reports whether Kubernetes itself has types in a group.
func isBuiltIn(group string) bool {
	types, err := storedTypes()
	return err != nil || types.IsGroupRegistered(group)
}

// hasUsualKey reports whether a key, without the prefix, is the one that the object has
// if its type is stored as most types are: built-in ones under their resource, custom
// resources under group and resource. The scope of a type that is gone is unknown.
func (o Object) hasUsualKey(rest string) bool {
	resource, after := store.CutKey(rest)
	if resource.Resource != o.Resource || resource.Group != "" && resource.Group != o.Group ||
		resource.Group == "" && !isBuiltIn(o.Group) {
		return false
	}
	return "/"+after == o.suffix() || o.Kind == "" && after == o.Name
}
