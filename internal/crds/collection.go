package crds

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Upstream fact: how a collection of CRDs is deleted
//
// Mirrors: k8s.io/apiserver/pkg/registry/generic/registry.Store.DeleteCollection
//   k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.REST.Delete
// Why: upstream holds all deleted CRDs with their schemas, for the response. It
//   deletes with the store's method, not with that of the REST storage of CRDs.
// Gain: the deletion of 2,452 CRDs takes the memory of a page of them.
// Breaks: the deletion of a collection of CRDs does not do what kube-apiserver does.

// DeleteCollection implements [rest.CollectionDeleter]. Whole CRDs are read page by page:
// for the deletion, and again for the response, at the same revision.
func (r *registry) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, listOptions *metainternalversion.ListOptions) (runtime.Object, error) {
	if !readsAs(ctx, readWhole) {
		return r.REST.DeleteCollection(ctx, validate, options, listOptions)
	}
	obj, err := r.whole.List(ctx, listOptions)
	if err != nil {
		return nil, err
	}
	list := obj.(*storedDefinitionList)
	deletions, deleting := errgroup.WithContext(ctx)
	deletions.SetLimit(max(r.DeleteCollectionWorkers, 1))
	err = list.each(deleting, func(d *storedDefinition) error {
		name := d.Name
		deletions.Go(func() error {
			_, _, err := r.Store.Delete(deleting, name, validate, options.DeepCopy())
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
		return context.Cause(deleting)
	})
	if failure := deletions.Wait(); failure != nil {
		return nil, failure
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}
