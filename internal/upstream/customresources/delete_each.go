package customresources

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
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
//   Tests: TestDeleteCollection, TestCollectionOfDefinitionsIsDeleted.

// maxDeletions bounds the deletions at the same time: each has decoded copies of a CRD in
// memory, of up to megabytes.
const maxDeletions = 8

// DeleteEach deletes the CRDs that each visits, DeleteCollectionWorkers at a time, at most
// maxDeletions. It ends at the first failure; the context of each ends then. A CRD that is
// gone is no failure.
func DeleteEach(ctx context.Context, store *genericregistry.Store, each func(ctx context.Context, visit func(name string)) error, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) error {
	deletions, deleting := errgroup.WithContext(ctx)
	deletions.SetLimit(min(max(store.DeleteCollectionWorkers, 1), maxDeletions))
	err := each(deleting, func(name string) {
		deletions.Go(func() error {
			_, _, err := store.Delete(deleting, name, validate, options.DeepCopy())
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	})
	if failure := deletions.Wait(); failure != nil {
		return failure
	}
	return err
}
