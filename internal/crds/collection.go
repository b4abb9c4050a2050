package crds

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// DeleteCollection implements [rest.CollectionDeleter]. Whole CRDs are read page by page:
// for the deletion, and again for the response, at the same revision.
func (r *registry) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc,
	options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	if !readsAs(ctx, readWhole) {
		return r.REST.DeleteCollection(ctx, validate, options, listOptions)
	}
	obj, err := r.whole.List(ctx, listOptions)
	if err != nil {
		return nil, err
	}
	list := obj.(*storedDefinitionList)
	each := func(ctx context.Context, visit func(name string)) error {
		return list.each(ctx, func(d *storedDefinition) error {
			visit(d.Name)
			return context.Cause(ctx)
		})
	}
	if err := customresources.DeleteEach(ctx, r.Store, each, validate, options); err != nil {
		return nil, err
	}
	list.unshared = true
	return list, nil
}
