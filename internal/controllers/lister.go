package controllers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// liveLister is a [cache.GenericLister] without a cache: it reads the metadata of the
// objects from the API server. ctx ends its requests; the interface has none.
type liveLister struct {
	ctx    context.Context
	client metadata.Getter
}

// List implements [cache.GenericLister].
func (l liveLister) List(selector labels.Selector) ([]runtime.Object, error) {
	return liveNamespaceLister{l.ctx, l.client}.List(selector)
}

// Get implements [cache.GenericLister], for cluster-scoped objects.
func (l liveLister) Get(name string) (runtime.Object, error) {
	return liveNamespaceLister{l.ctx, l.client}.Get(name)
}

// ByNamespace implements [cache.GenericLister].
func (l liveLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return liveNamespaceLister{l.ctx, l.client.Namespace(namespace)}
}

// liveNamespaceLister is a [cache.GenericNamespaceLister] without a cache.
type liveNamespaceLister struct {
	ctx    context.Context
	client metadata.ResourceInterface
}

// List implements [cache.GenericNamespaceLister].
func (l liveNamespaceLister) List(selector labels.Selector) ([]runtime.Object, error) {
	list, err := l.client.List(l.ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	objects := make([]runtime.Object, len(list.Items))
	for i := range list.Items {
		objects[i] = &list.Items[i]
	}
	return objects, nil
}

// Get implements [cache.GenericNamespaceLister].
func (l liveNamespaceLister) Get(name string) (runtime.Object, error) {
	return l.client.Get(l.ctx, name, metav1.GetOptions{})
}
