package crds

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic"
	genericstore "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

// wholeReader lists whole CRDs for clients, a page at a time. The store reads the CRDs that a
// watch begins with page by page. It is safe for concurrent use.
type wholeReader struct{ *genericstore.Store }

// newWholeReader reads like the registry's store.
func (d *definitions) newWholeReader(options genericregistry.RESTOptions) error {
	config := *options.StorageConfig
	config.Codec = &storedCodec{Codec: config.Codec, encodings: newEncodings()}
	stored, destroy, err := options.Decorator(&config, d.prefix,
		func(obj runtime.Object) (string, error) { return d.key(obj.(*storedDefinition).Name), nil },
		func() runtime.Object { return &storedDefinition{} },
		func() runtime.Object { return &storedDefinitionList{} },
		storedAttrs, nil, &cache.Indexers{})
	if err != nil {
		return fmt.Errorf("make a store of CustomResourceDefinitions for lists and watches: %w", err)
	}
	d.destroys = append(d.destroys, destroy)
	store := *d.whole.Store
	store.NewFunc = func() runtime.Object { return &storedDefinition{} }
	store.NewListFunc = func() runtime.Object { return &storedDefinitionList{} }
	store.PredicateFunc = func(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
		return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: storedAttrs}
	}
	store.Storage = genericstore.DryRunnableStorage{Storage: stored, Codec: config.Codec}
	d.reader = &wholeReader{&store}
	return nil
}

func storedAttrs(obj runtime.Object) (labels.Set, fields.Set, error) {
	stored, ok := obj.(*storedDefinition)
	if !ok {
		return nil, nil, fmt.Errorf("select a CustomResourceDefinition: it is a %T", obj)
	}
	return customresourcedefinition.GetAttrs(&stored.CustomResourceDefinition)
}

// List implements [k8s.io/apiserver/pkg/registry/rest.Lister]. A list that is not
// limited is read in pages of one revision while it is encoded.
func (r *wholeReader) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	if options == nil {
		options = &metainternalversion.ListOptions{}
	}
	if options.Limit > 0 || options.Continue != "" || options.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return r.page(ctx, options)
	}
	return r.pages(ctx, options)
}

// pages returns the first page of a list that is at least as new as the options require.
// The page reads the following ones.
func (r *wholeReader) pages(ctx context.Context,
	options *metainternalversion.ListOptions) (*storedDefinitionList, error) {
	first := options.DeepCopy()
	first.Limit = listPage
	if version := first.ResourceVersion; version != "" && version != "0" {
		// With a limit, a resource version without resourceVersionMatch means exactly that version.
		first.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	list, err := r.page(ctx, first)
	if err != nil {
		return nil, err
	}
	r.chain(list, first)
	list.Continue, list.RemainingItemCount = "", nil
	return list, nil
}

// chain has list read the next page.
func (r *wholeReader) chain(list *storedDefinitionList, options *metainternalversion.ListOptions) {
	if list.Continue == "" {
		return
	}
	nextOptions := options.DeepCopy()
	nextOptions.Continue, nextOptions.ResourceVersion, nextOptions.ResourceVersionMatch = list.Continue, "", ""
	list.next = func(ctx context.Context) (*storedDefinitionList, error) {
		next, err := r.page(ctx, nextOptions)
		if err == nil {
			r.chain(next, nextOptions)
		}
		return next, err
	}
}

func (r *wholeReader) page(ctx context.Context,
	options *metainternalversion.ListOptions) (*storedDefinitionList, error) {
	obj, err := r.Store.List(ctx, options)
	if err != nil {
		return nil, err // an API status
	}
	list, ok := obj.(*storedDefinitionList)
	if !ok {
		return nil, fmt.Errorf("list CustomResourceDefinitions: the store returned a %T", obj)
	}
	list.ctx = ctx
	return list, nil
}
