package crds

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/dryrun"
)

// registry is the REST storage of CRDs. It updates the catalog before it answers a
// write.
type registry struct {
	*customresourcedefinition.REST
	metadata *genericregistry.Store // without schemas
	whole    *wholeReader           // page by page
	catalog  *catalog
	names    *names
	// alone reports whether no other server writes CRDs at this moment.
	alone func(context.Context) (bool, error)
}

// reserve returns a context for the creation of a CRD, and the function that ends it. The
// creation accepts the names of the CRD and establishes it if this server is the only
// one. After an error it assumes other servers.
func (r *registry) reserve(ctx context.Context) (context.Context, func()) {
	if alone, err := r.alone(ctx); err != nil || !alone {
		return ctx, func() {}
	}
	return r.names.begin(ctx)
}

// List implements [rest.Lister].
func (r *registry) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return r.reader(ctx).List(ctx, options)
}

// Watch implements [rest.Watcher].
func (r *registry) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	return r.reader(ctx).Watch(ctx, options)
}

// reader returns the reader for the content of the response.
func (r *registry) reader(ctx context.Context) listWatcher {
	switch {
	case readsAs(ctx, readMetadata):
		return r.metadata
	case readsAs(ctx, readWhole):
		return r.whole
	}
	return r.REST.Store
}

// listWatcher lists and watches CRDs.
type listWatcher interface {
	List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error)
	rest.Watcher
}

// Create implements [rest.Creater].
func (r *registry) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	options *metav1.CreateOptions) (runtime.Object, error) {
	ctx, release := r.reserve(ctx)
	defer release()
	created, err := r.REST.Create(ctx, obj, validate, options)
	if err != nil || dryrun.IsDryRun(options.DryRun) {
		return created, err
	}
	return created, r.wrote(created)
}

// Update implements [rest.Updater].
func (r *registry) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc,
	forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	if forceAllowCreate { // server-side apply, which creates what does not exist
		var release func()
		ctx, release = r.reserve(ctx)
		defer release()
	}
	updated, created, err := r.REST.Update(ctx, name, info, createValidation, updateValidation, forceAllowCreate, options)
	if err != nil || dryrun.IsDryRun(options.DryRun) {
		return updated, created, err
	}
	return updated, created, r.wrote(updated)
}

// Delete implements [rest.GracefulDeleter].
func (r *registry) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	deleted, gone, err := r.REST.Delete(ctx, name, validate, options)
	if err != nil || gone || options != nil && dryrun.IsDryRun(options.DryRun) {
		return deleted, gone, err
	}
	return deleted, gone, r.wrote(deleted)
}

func (r *registry) wrote(obj runtime.Object) error {
	crd, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok || crd.DeletionTimestamp != nil && len(crd.Finalizers) == 0 {
		return nil // the informer receives the deletion
	}
	light, err := lightOf(crd)
	if err != nil {
		return fmt.Errorf("serve the new state of CustomResourceDefinition %s, which is stored: %w", crd.Name, err)
	}
	r.catalog.wrote(light)
	return nil
}

// statusRegistry is the status subresource of CRDs.
type statusRegistry struct {
	*customresourcedefinition.StatusREST
	registry *registry
}

// Update implements [rest.Updater].
func (s *statusRegistry) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo,
	createValidation rest.ValidateObjectFunc, updateValidation rest.ValidateObjectUpdateFunc,
	forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	reserved := &reservation{names: s.registry.names}
	defer reserved.release()
	info = rest.WrapUpdatedObjectInfo(info, reserved.guard)
	updated, created, err := s.StatusREST.Update(ctx, name, info, createValidation, updateValidation, forceAllowCreate,
		options)
	if err != nil || dryrun.IsDryRun(options.DryRun) {
		return updated, created, err
	}
	return updated, created, s.registry.wrote(updated)
}

// DeleteCollection implements [rest.CollectionDeleter]. It deletes page by page: all CRDs in memory
// take ten times their size. The response reads them again, as they were before.
func (r *registry) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	if listOptions == nil || listOptions.Limit > 0 {
		return r.REST.DeleteCollection(ctx, validate, options, listOptions)
	}
	deleted, err := r.List(ctx, listOptions)
	if err != nil {
		return nil, err
	}
	page := listOptions.DeepCopy()
	for page.Limit = listPage; ; {
		obj, err := r.REST.DeleteCollection(ctx, validate, options, page)
		if apierrors.IsResourceExpired(err) && page.Continue != listOptions.Continue {
			// etcd was compacted since the last page: continue in the latest revision. The response,
			// which cannot read the older one, is a status.
			deleted = nil
			if page.Continue, err = latest(page.Continue); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		list, err := meta.ListAccessor(obj)
		if err != nil || list.GetContinue() == "" {
			return deleted, err
		}
		page.Continue, page.ResourceVersion, page.ResourceVersionMatch = list.GetContinue(), "", ""
	}
}

// latest returns the token that continues at the same object, in the latest revision. The token of
// an error skips objects if the page was read from etcd in parts.
func latest(token string) (string, error) {
	from, _, err := storage.DecodeContinue(token, "/")
	if err != nil {
		return "", err
	}
	return storage.EncodeContinue(from, "/", -1)
}
