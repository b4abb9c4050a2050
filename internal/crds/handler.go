package crds

import (
	"context"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// informer is the informer of upstream's handler: its lister and its events are those of
// the front.
func (f *front) informer() customresources.HandlerInformer {
	return customresources.HandlerInformer{
		View: f.routingView, Whole: f.source, All: f.catalog.all,
		Follow: func(handler cache.ResourceEventHandler) { f.events = handler },
	}
}

// noObjects is the storage of a type that has no objects.
type noObjects struct{}

// NewList implements [rest.Lister].
func (noObjects) NewList() runtime.Object { return &unstructured.UnstructuredList{} }

// List implements [rest.Lister].
func (noObjects) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	return &unstructured.UnstructuredList{}, nil
}

// ConvertToTable implements [rest.TableConvertor].
func (noObjects) ConvertToTable(context.Context, runtime.Object, runtime.Object) (*metav1.Table, error) {
	return &metav1.Table{}, nil
}

// DeleteCollection implements [rest.CollectionDeleter].
func (noObjects) DeleteCollection(context.Context, rest.ValidateObjectFunc, *metav1.DeleteOptions,
	*metainternalversion.ListOptions) (runtime.Object, error) {
	return &unstructured.UnstructuredList{}, nil
}
