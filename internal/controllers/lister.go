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
	ctx       context.Context
	objects   metadata.ResourceInterface
	namespace func(string) metadata.ResourceInterface
}

func newLiveLister(ctx context.Context, client metadata.Getter) liveLister {
	return liveLister{ctx, client, client.Namespace}
}

// List implements [cache.GenericLister].
func (l liveLister) List(selector labels.Selector) ([]runtime.Object, error) {
	list, err := l.objects.List(l.ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	objects := make([]runtime.Object, len(list.Items))
	for i := range list.Items {
		objects[i] = &list.Items[i]
	}
	return objects, nil
}

// Get implements [cache.GenericLister].
func (l liveLister) Get(name string) (runtime.Object, error) {
	return l.objects.Get(l.ctx, name, metav1.GetOptions{})
}

// ByNamespace implements [cache.GenericLister].
func (l liveLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return liveLister{ctx: l.ctx, objects: l.namespace(namespace)}
}
