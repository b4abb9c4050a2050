package crds

import (
	"context"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/tools/cache"
)

// handlerInformer is the informer of upstream's handler: its lister and its events are
// those of the front.
type handlerInformer struct {
	cache.SharedIndexInformer
	front *front
}

var _ informers.CustomResourceDefinitionInformer = handlerInformer{}

// Informer implements [informers.CustomResourceDefinitionInformer].
func (h handlerInformer) Informer() cache.SharedIndexInformer { return h }

// Lister implements [informers.CustomResourceDefinitionInformer].
func (h handlerInformer) Lister() listers.CustomResourceDefinitionLister {
	return handlerLister{h.front}
}

// AddEventHandler gives the handler's event handler to the front.
func (h handlerInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	h.front.events = handler
	return nil, nil
}

// handlerLister is the lister that upstream's handler has.
type handlerLister struct{ front *front }

// Get returns the CRD to route by, or the whole CRD: see wholePrefix.
func (l handlerLister) Get(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	if whole, ok := strings.CutPrefix(name, wholePrefix); ok {
		return l.front.fetch(whole)
	}
	return l.front.viewed(name)
}

// List is called when a CRD has been deleted. The handler gets no such event: see drop.
func (l handlerLister) List(labels.Selector) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return l.front.catalog.all(), nil
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
func (noObjects) DeleteCollection(context.Context, rest.ValidateObjectFunc, *metav1.DeleteOptions, *metainternalversion.ListOptions) (runtime.Object, error) {
	return &unstructured.UnstructuredList{}, nil
}
