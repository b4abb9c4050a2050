package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	clientrest "k8s.io/client-go/rest"
)

// Resource is a resource whose type is a Go type, served like a built-in one: with OpenAPI,
// server-side apply, tables, watch, field validation, RBAC, admission, quota, garbage
// collection and the deletion of namespaces. It is stored in etcd under GROUP/NAME in the
// encoding JSON, or is what Storage returns. [Kind] makes one for types without generated code.
type Resource struct {
	// Group, Version and Kind name the type. The group has a dot.
	Group, Version, Kind string
	// Name is the plural in paths; empty for the kind in lower case with an s.
	Name string
	// ShortNames and Categories are those of kubectl.
	ShortNames, Categories []string
	// ClusterScoped is true for a resource without namespaces.
	ClusterScoped bool

	// New and NewList return pointers to empty values of the Go types, which no other kind of the
	// group has. A field Status makes the subresource status. Where the resource is stored, all
	// fields are exported, with names in tags json, and are no arrays or uint64; times are [metav1.Time].
	New, NewList func() runtime.Object
	// Versions are further versions that are served. Objects are stored as Version.
	Versions []ResourceVersion

	// Default sets fields that a client left out, when an object is decoded (upstream:
	// runtime.Scheme.AddTypeDefaultingFunc): of a further version, after ToStored. nil for none.
	Default func(object runtime.Object)
	// Validate returns what is wrong with an object that is written. old is nil at a creation.
	Validate func(ctx context.Context, object, old runtime.Object) field.ErrorList
	// Warn returns warnings for the client that writes the object, without a prefix.
	Warn func(ctx context.Context, object, old runtime.Object) []string
	// Columns follow NAME in tables, before AGE.
	Columns []Column
	// Subresources are further ones, by name.
	Subresources map[string]Subresource

	// Storage replaces the store in etcd: the resource has the verbs whose interfaces of
	// k8s.io/apiserver/pkg/registry/rest the result implements, and ShortNames, Categories, ClusterScoped,
	// New, NewList and the functions above but Default are not used, unless it uses them. It is called
	// once, before the server serves. Its Watch refuses SendInitialEvents with an error of the reason
	// Invalid, unless it sends them: client-go's informers ask for them first, and list after an error.
	Storage func(StorageEnvironment) (rest.Storage, error)
}

// ResourceVersion is a further version of a resource.
type ResourceVersion struct {
	Version      string
	New, NewList func() runtime.Object
	// ToStored and FromStored convert between an object of this version and one of the
	// stored version. Metadata is copied before they are called.
	ToStored, FromStored func(from, to runtime.Object) error
}

// Column is a column of tables.
type Column struct {
	// Name and Type are those of [metav1.TableColumnDefinition].
	Name, Type string
	// Wide hides the column unless kubectl gets -o wide.
	Wide bool
	// Value returns the cell of an object: a string, number, boolean or nil.
	Value func(object runtime.Object) any
}

// Subresource is a subresource of the objects of a resource. One of its fields is set.
type Subresource struct {
	// Handler returns the handler of requests with one of Methods (empty: GET and POST) to
	// the subresource of an object, as of an action, logs or exec.
	Handler func(ctx context.Context, parent Parent, name string) (http.Handler, error)
	Methods []string
	// Storage is any other, with the interfaces of k8s.io/apiserver/pkg/registry/rest. Its Go types
	// are those of a kind of the group, or the Scale of autoscaling/v1, which GroupVersionKind names.
	Storage func(Parent) (rest.Storage, error)
}

// Parent reads and updates the objects of a resource, in the namespace of the request's
// context. Admission does not see its writes. It is safe for concurrent use.
type Parent interface {
	// Get returns the object.
	Get(ctx context.Context, name string) (runtime.Object, error)
	// Update calls change with the object and stores the result. It calls change again after
	// a conflict. It changes status and spec. It stores in a dry run, too: do not call it in one.
	Update(ctx context.Context, name string, change func(runtime.Object) error) (runtime.Object, error)
}

// StorageEnvironment is what a storage may use.
type StorageEnvironment struct {
	// Client calls this server in the process, with all rights. Requests wait until the
	// server serves.
	Client *clientrest.Config
	// Options returns the options of stores in etcd with the codec of the resource's group
	// (upstream: generic.StoreOptions.RESTOptions).
	Options generic.RESTOptionsGetter
}

// gvk returns the group, version and kind of the stored version.
func (r *Resource) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// groupResource returns the group and the plural.
func (r *Resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.plural()}
}

func (r *Resource) plural() string { return cmp.Or(r.Name, strings.ToLower(r.Kind)+"s") }

// check returns the first mistake in the definition.
func (r *Resource) check() error {
	problem := func(format string, values ...any) error {
		return fmt.Errorf("Options.Resources: %s: %s", r.gvk(), fmt.Sprintf(format, values...))
	}
	for _, name := range []struct {
		what, value string
		check       func(string) []string
	}{
		{"the group", r.Group, validation.IsDNS1123Subdomain},
		{"the kind in lower case", strings.ToLower(r.Kind), validation.IsDNS1035Label},
		{"the name", r.plural(), validation.IsDNS1035Label},
	} {
		if errs := name.check(name.value); len(errs) > 0 {
			return problem("%s %q is wrong: %s", name.what, name.value, strings.Join(errs, "; "))
		}
	}
	switch {
	case !strings.Contains(r.Group, "."):
		return problem("the group %q has no dot: groups of types that are not Kubernetes' own are domains, "+
			"such as %s.example.com", r.Group, r.Group)
	case strings.HasSuffix(r.Group, ".k8s.io") || strings.HasSuffix(r.Group, ".kubernetes.io"):
		return problem("the group is one of Kubernetes: take a domain of your own")
	case slices.ContainsFunc(r.Columns, func(c Column) bool { return c.Value == nil }):
		return problem("a column has no Value")
	}
	stored := ResourceVersion{Version: r.Version, New: r.New, NewList: r.NewList}
	for _, version := range append([]ResourceVersion{stored}, r.Versions...) {
		if err := r.checkVersion(version); err != nil {
			return problem("the version %q: %v", version.Version, err)
		}
	}
	for name, sub := range r.Subresources {
		switch {
		case (sub.Handler == nil) == (sub.Storage == nil):
			return problem("the subresource %s needs Handler or Storage, and not both", name)
		case name == "status" && r.Storage == nil && hasStatus(r.New()):
			return problem("the subresource status comes with the field Status")
		case len(validation.IsDNS1035Label(name)) > 0:
			return problem("the subresource %q has no valid name: lower case letters, digits and -", name)
		}
	}
	for _, version := range r.Versions {
		if version.NewList == nil || version.ToStored == nil || version.FromStored == nil {
			return problem("the version %q needs New, NewList, ToStored and FromStored", version.Version)
		}
	}
	return nil
}

// checkVersion returns the first mistake in the name and the Go types of a version.
func (r *Resource) checkVersion(version ResourceVersion) error {
	if errs := validation.IsDNS1035Label(version.Version); len(errs) > 0 {
		return fmt.Errorf("its name is wrong: %s", strings.Join(errs, "; "))
	}
	if err := checkType("New", version.New); err != nil {
		return err
	}
	if version.NewList != nil || r.Storage == nil {
		if err := checkType("NewList", version.NewList); err != nil {
			return err
		}
	}
	if r.Storage != nil {
		return nil
	}
	object, list := version.New(), version.NewList()
	if _, err := meta.Accessor(object); err != nil || !meta.IsListType(list) {
		return fmt.Errorf("%T has no metadata (metav1.ObjectMeta), or %T has no field Items", object, list)
	}
	if status, ok := reflect.TypeOf(object).Elem().FieldByName("Status"); ok && len(status.Index) > 1 {
		return fmt.Errorf("the field Status of %T is embedded: make it a field of its own", object)
	}
	return checkFields(reflect.TypeOf(object), r.Kind, map[reflect.Type]bool{ // upstream compares these as a whole
		reflect.TypeFor[metav1.Time](): true, reflect.TypeFor[metav1.MicroTime](): true,
		reflect.TypeFor[apiresource.Quantity](): true,
	})
}

// hasStatus reports whether the Go type has a field Status with fields.
func hasStatus(object runtime.Object) bool {
	status := reflect.ValueOf(object).Elem().FieldByName("Status")
	return status.IsValid() && (status.Kind() != reflect.Struct || status.NumField() > 0)
}

// Kind describes a [Resource] of objects [Object], with functions that get this type.
type Kind[Spec, Status any] struct {
	Group, Version, Kind, Name string
	ShortNames, Categories     []string
	ClusterScoped              bool
	Default                    func(*Object[Spec, Status])
	Validate                   func(ctx context.Context, object, old *Object[Spec, Status]) field.ErrorList
	Columns                    []KindColumn[Spec, Status]
	Subresources               map[string]Subresource
	// List makes the resource a read-only one that is not stored: it returns the objects in
	// the namespace, or in all if namespace is empty. client calls this server in the
	// process, with all rights. An error that is no API status is a 500.
	List func(ctx context.Context, client *clientrest.Config, namespace string) ([]Object[Spec, Status], error)
}

// KindColumn is a [Column] of a [Kind].
type KindColumn[Spec, Status any] struct {
	Name, Type string
	Wide       bool
	Value      func(*Object[Spec, Status]) any
}

// Resource returns the resource.
func (k Kind[Spec, Status]) Resource() Resource {
	type object = Object[Spec, Status]
	r := Resource{
		Group: k.Group, Version: k.Version, Kind: k.Kind, Name: k.Name, ShortNames: k.ShortNames, Categories: k.Categories,
		ClusterScoped: k.ClusterScoped, Subresources: k.Subresources,
		New: func() runtime.Object { return &object{} }, NewList: func() runtime.Object { return &List[Spec, Status]{} },
	}
	if k.Default != nil {
		r.Default = func(o runtime.Object) { k.Default(o.(*object)) }
	}
	if k.Validate != nil {
		r.Validate = func(ctx context.Context, o, old runtime.Object) field.ErrorList {
			before, _ := old.(*object)
			return k.Validate(ctx, o.(*object), before)
		}
	}
	for _, column := range k.Columns {
		of := Column{Name: column.Name, Type: column.Type, Wide: column.Wide}
		if column.Value != nil {
			of.Value = func(o runtime.Object) any { return column.Value(o.(*object)) }
		}
		r.Columns = append(r.Columns, of)
	}
	if k.List != nil {
		of := r
		r.Storage = k.storage(&of)
	}
	return r
}

// apiResourceNames has the names of a resource for discovery, and its columns for tables.
type apiResourceNames struct{ resource *Resource }

// GetSingularName implements [rest.SingularNameProvider].
func (n apiResourceNames) GetSingularName() string { return strings.ToLower(n.resource.Kind) }

// ShortNames implements [rest.ShortNamesProvider].
func (n apiResourceNames) ShortNames() []string { return n.resource.ShortNames }

// Categories implements [rest.CategoriesProvider].
func (n apiResourceNames) Categories() []string { return n.resource.Categories }
