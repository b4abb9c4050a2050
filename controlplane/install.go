package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
)

// group is an API group of resources. It implements [apiserver.Group].
type group struct {
	name      string
	resources []*Resource
	versions  []schema.GroupVersion // preferred first
	scheme    *runtime.Scheme
	codecs    serializer.CodecFactory
}

// newGroups checks the resources and returns their groups in the order of their first
// resources.
func newGroups(resources []Resource) ([]apiserver.Group, error) {
	var errs []error
	var ordered []apiserver.Group
	groups, seen := map[string]*group{}, map[schema.GroupResource]bool{}
	for i := range resources {
		r := &resources[i]
		if err := r.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		if seen[r.groupResource()] {
			errs = append(errs, fmt.Errorf("Options.Resources: %s is there twice", r.groupResource()))
			continue
		}
		seen[r.groupResource()] = true
		g := groups[r.Group]
		if g == nil {
			g = &group{name: r.Group, scheme: runtime.NewScheme()}
			groups[r.Group] = g
			ordered = append(ordered, g)
		}
		if err := g.add(r); err != nil {
			errs = append(errs, fmt.Errorf("Options.Resources: %s: %w", r.gvk(), err))
		}
	}
	for _, g := range groups {
		if err := g.complete(); err != nil {
			errs = append(errs, fmt.Errorf("Options.Resources: %s: %w", g.name, err))
		}
	}
	return ordered, errors.Join(errs...)
}

// add registers the types of the resource. The stored version is the internal one as well.
func (g *group) add(r *Resource) error {
	g.resources = append(g.resources, r)
	stored := r.gvk()
	g.addVersion(stored.GroupVersion())
	for _, gv := range []schema.GroupVersion{stored.GroupVersion(),
		{Group: r.Group, Version: runtime.APIVersionInternal}} {
		if err := g.register(gv, r.Kind, r.New, r.NewList); err != nil {
			return err
		}
	}
	if r.Default != nil {
		g.scheme.AddTypeDefaultingFunc(r.New(), func(object any) { r.Default(object.(runtime.Object)) })
	}
	var errs []error
	for _, version := range r.Versions {
		gv := schema.GroupVersion{Group: r.Group, Version: version.Version}
		g.addVersion(gv)
		errs = append(errs, g.register(gv, r.Kind, version.New, version.NewList),
			convertTypes(g.scheme, version.New(), r.New(), version.ToStored),
			convertTypes(g.scheme, r.New(), version.New(), version.FromStored))
		if r.NewList != nil {
			errs = append(errs, convertTypes(g.scheme, r.NewList(), version.NewList(), g.convertItems(version.New)))
		}
	}
	return errors.Join(errs...)
}

// convertItems returns a function that converts the items of a list to objects of another version.
func (g *group) convertItems(newObject func() runtime.Object) func(from, to runtime.Object) error {
	return func(from, to runtime.Object) error {
		var items []runtime.Object
		err := meta.EachListItem(from, func(item runtime.Object) error {
			items = append(items, newObject())
			return g.scheme.Convert(item, items[len(items)-1], nil)
		})
		if err != nil {
			return err
		}
		return meta.SetList(to, items)
	}
}

func (g *group) addVersion(gv schema.GroupVersion) {
	if !slices.Contains(g.versions, gv) {
		g.versions = append(g.versions, gv)
		metav1.AddToGroupVersion(g.scheme, gv)
	}
}

// register adds the types of a version. Encoders find the kind of an object by its Go type, so no
// two kinds have the same.
func (g *group) register(gv schema.GroupVersion, kind string, newObject, newList func() runtime.Object) error {
	if g.scheme.Recognizes(gv.WithKind(kind)) {
		return fmt.Errorf("the kind %s of %s is there twice: choose another kind or version", kind, gv)
	}
	object := newObject()
	if kinds, _, err := g.scheme.ObjectKinds(object); err == nil && kinds[0].Kind != kind {
		return fmt.Errorf("%T is the type of the kind %s too: define a type for each kind (type %sSpec %sSpec)",
			object, kinds[0].Kind, kind, kinds[0].Kind)
	}
	g.scheme.AddKnownTypeWithName(gv.WithKind(kind), object)
	if newList == nil {
		return nil
	}
	return g.register(gv, kind+"List", newList, nil)
}

// convertTypes adds the conversion between two Go types of objects or lists.
func convertTypes(scheme *runtime.Scheme, from, to runtime.Object, convert func(from, to runtime.Object) error) error {
	return scheme.AddConversionFunc(from, to, func(a, b any, _ conversion.Scope) (err error) {
		defer apiserver.PanicAsError(&err) // upstream converts in goroutines of its own, too
		source, target := a.(runtime.Object), b.(runtime.Object)
		sourceMeta, ok := source.(metav1.ObjectMetaAccessor)
		if targetMeta, alike := target.(metav1.ObjectMetaAccessor); ok && alike {
			copyMeta[*metav1.ObjectMeta](sourceMeta.GetObjectMeta(), targetMeta.GetObjectMeta())
		}
		sourceList, ok := source.(metav1.ListMetaAccessor)
		if targetList, alike := target.(metav1.ListMetaAccessor); ok && alike {
			copyMeta[*metav1.ListMeta](sourceList.GetListMeta(), targetList.GetListMeta())
		}
		if err := convert(source, target); err != nil {
			return err
		}
		scheme.Default(target) // Default of the resource, if target is of the stored version
		return nil
	})
}

// copyMeta copies all metadata.
func copyMeta[Meta interface{ DeepCopyInto(Meta) }](from, to any) {
	source, ok := from.(Meta)
	if target, alike := to.(Meta); ok && alike {
		source.DeepCopyInto(target)
	}
}

func (g *group) complete() error {
	metav1.AddToGroupVersion(g.scheme, schema.GroupVersion{Version: "v1"})
	for _, version := range []string{"v1", runtime.APIVersionInternal} { // of the subresource scale
		g.scheme.AddKnownTypes(schema.GroupVersion{Group: autoscalingv1.GroupName, Version: version}, &autoscalingv1.Scale{})
	}
	g.codecs = serializer.NewCodecFactory(g.scheme)
	return g.scheme.SetVersionPriority(g.versions...)
}

// Name implements [apiserver.Group].
func (g *group) Name() string { return g.name }

// Versions implements [apiserver.Group].
func (g *group) Versions() []schema.GroupVersion { return g.versions }

// Scheme implements [apiserver.Group].
func (g *group) Scheme() *runtime.Scheme { return g.scheme }

// Definitions implements [apiserver.Group].
func (g *group) Definitions(base map[string]common.OpenAPIDefinition,
	ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	made := &schemas{base: base, made: map[string]common.OpenAPIDefinition{}, ref: ref}
	for gvk, t := range g.scheme.AllKnownTypes() {
		if gvk.Group == g.name && gvk.Version != runtime.APIVersionInternal {
			// The builders look these up by the name of the Go type.
			made.addAs(util.GetCanonicalTypeName(reflect.New(t).Interface()), t)
		}
	}
	return made.made
}

// Install implements [apiserver.Group].
func (g *group) Install(environment apiserver.GroupEnvironment) (*genericapiserver.APIGroupInfo, error) {
	info := genericapiserver.NewDefaultAPIGroupInfo(g.name, g.scheme, runtime.NewParameterCodec(g.scheme), g.codecs)
	info.PrioritizedVersions, info.NegotiatedSerializer = g.versions, withoutProtobuf{g.codecs}
	for _, r := range g.resources {
		storages, err := g.storages(r, environment)
		versions := []string{r.Version}
		for _, version := range r.Versions {
			versions = append(versions, version.Version)
		}
		for _, version := range versions {
			if info.VersionedResourcesStorageMap[version] == nil {
				info.VersionedResourcesStorageMap[version] = map[string]rest.Storage{}
			}
			maps.Copy(info.VersionedResourcesStorageMap[version], storages)
		}
		if err != nil {
			return &info, fmt.Errorf("make the storage of %s: %w", r.groupResource(), err)
		}
	}
	return &info, nil
}

// storages returns the storage of the resource and of its subresources, by path.
func (g *group) storages(r *Resource,
	environment apiserver.GroupEnvironment) (storages map[string]rest.Storage, err error) {
	defer apiserver.PanicAsError(&err)
	options := environment.Options(storageCodec{g.codecs.LegacyCodec(r.gvk().GroupVersion())})
	plural := r.plural()
	if r.Storage != nil {
		made, err := r.Storage(StorageEnvironment{Client: environment.Client, Options: options})
		if err != nil || made == nil {
			return nil, cmp.Or(err, errNoStorage)
		}
		return g.withSubresources(r, map[string]rest.Storage{plural: made}, nil)
	}
	store := &registry.Store{
		NewFunc: r.New, NewListFunc: r.NewList, DefaultQualifiedResource: r.groupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: r.Group, Resource: apiResourceNames{r}.GetSingularName()},
		TableConvertor:            apiResourceNames{r},
	}
	main := strategy{ObjectTyper: g.scheme, NameGenerator: names.SimpleNameGenerator, resource: r}
	store.CreateStrategy, store.UpdateStrategy, store.DeleteStrategy, store.ResetFieldsStrategy = main, main, main, main
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, err
	}
	storages = map[string]rest.Storage{plural: &stored{Store: store, apiResourceNames: apiResourceNames{r}}}
	whole, changesAll := *store, main // of Parent
	changesAll.whole = true
	whole.UpdateStrategy = changesAll
	if hasStatus(r.New()) {
		of := main
		of.status = true
		status := *store
		status.UpdateStrategy, status.ResetFieldsStrategy = of, of
		storages[plural+"/status"] = &statusStorage{&status}
	}
	return g.withSubresources(r, storages, &whole)
}

var errNoStorage = errors.New("the function Storage returned nil")

// withSubresources adds the subresources that the resource defines. store is nil where the
// resource has a storage of its own.
func (g *group) withSubresources(r *Resource, storages map[string]rest.Storage,
	store *registry.Store) (map[string]rest.Storage, error) {
	plural := r.plural()
	for name, sub := range r.Subresources {
		var of Parent
		if store != nil {
			of = parent{store}
		}
		if sub.Handler != nil {
			storages[plural+"/"+name] = &connector{resource: r, sub: sub, parent: of}
			continue
		}
		made, err := sub.Storage(of)
		if err != nil || made == nil {
			return storages, fmt.Errorf("the subresource %s: %w", name, cmp.Or(err, errNoStorage))
		}
		storages[plural+"/"+name] = made
	}
	return storages, nil
}

// stored is the storage of a resource in etcd.
type stored struct {
	*registry.Store
	apiResourceNames
}

// ConvertToTable implements [rest.TableConvertor].
func (s *stored) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.apiResourceNames.ConvertToTable(ctx, object, options)
}

// GetSingularName implements [rest.SingularNameProvider].
func (s *stored) GetSingularName() string { return s.apiResourceNames.GetSingularName() }

// statusStorage is the subresource status.
type statusStorage struct{ store *registry.Store }

// New implements [rest.Storage].
func (s *statusStorage) New() runtime.Object { return s.store.NewFunc() }

// Destroy implements [rest.Storage]. The store belongs to the resource.
func (s *statusStorage) Destroy() {}

// Get implements [rest.Getter].
func (s *statusStorage) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}

// Update implements [rest.Updater].
func (s *statusStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, create, update, false, options) // status never creates
}

// GetResetFields implements [rest.ResetFieldsStrategy].
func (s *statusStorage) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.store.GetResetFields()
}

// ConvertToTable implements [rest.TableConvertor].
func (s *statusStorage) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return s.store.ConvertToTable(ctx, object, options)
}

// parent implements [Parent].
type parent struct{ store *registry.Store }

// Get implements [Parent].
func (p parent) Get(ctx context.Context, name string) (runtime.Object, error) {
	return p.store.Get(ctx, name, &metav1.GetOptions{})
}

// Update implements [Parent].
func (p parent) Update(ctx context.Context, name string, change func(runtime.Object) error) (runtime.Object, error) {
	info := rest.DefaultUpdatedObjectInfo(nil, func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
		changed := old.DeepCopyObject()
		return changed, change(changed)
	})
	object, _, err := p.store.Update(ctx, name, info, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc,
		false, &metav1.UpdateOptions{})
	return object, err
}

// connector is a subresource with a handler.
type connector struct {
	resource *Resource
	sub      Subresource
	parent   Parent
}

// New implements [rest.Storage].
func (c *connector) New() runtime.Object { return c.resource.New() }

// Destroy implements [rest.Storage].
func (c *connector) Destroy() {}

// ConnectMethods implements [rest.Connecter].
func (c *connector) ConnectMethods() []string {
	if len(c.sub.Methods) > 0 {
		return c.sub.Methods
	}
	return []string{http.MethodGet, http.MethodPost}
}

// NewConnectOptions implements [rest.Connecter].
func (c *connector) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// Connect implements [rest.Connecter].
func (c *connector) Connect(ctx context.Context, name string, _ runtime.Object,
	responder rest.Responder) (http.Handler, error) {
	handler, err := c.sub.Handler(ctx, c.parent, name)
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	return handler, err
}
