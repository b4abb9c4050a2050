package crds

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	storageerrors "k8s.io/apiserver/pkg/storage/errors"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// listPage is how many stored CRDs are read at a time.
const listPage = 100

// definitions reads CRDs from the store, whole or in part. It is safe for concurrent
// use.
type definitions struct {
	// metadata has no schemas.
	metadata storage.Interface
	// whole is the storage of the API.
	whole *customresourcedefinition.REST
	// reader lists and watches whole CRDs.
	reader   *wholeReader
	prefix   string // of the keys, without the last slash
	below    string // the beginning of the keys
	destroys []func()
}

// newDefinitions reads over the connection of the API's storage, with codecs of its
// own.
func newDefinitions(getter genericregistry.RESTOptionsGetter,
	whole *customresourcedefinition.REST) (*definitions, error) {
	resource := apiextensions.Resource("customresourcedefinitions")
	options, err := getter.GetRESTOptions(resource, &apiextensions.CustomResourceDefinition{})
	if err != nil {
		return nil, fmt.Errorf("find the storage of %s: %w", resource, err)
	}
	d := &definitions{whole: whole, prefix: whole.KeyRootFunc(context.Background()),
		below: store.NamespaceKeys("", options.ResourcePrefix, "")}
	if d.metadata, err = d.metadataStore(options); err != nil {
		return nil, err
	}
	if err = d.newWholeReader(options); err != nil {
		d.destroy()
		return nil, err
	}
	return d, nil
}

func (d *definitions) destroy() {
	for _, destroy := range d.destroys {
		destroy()
	}
}

func (d *definitions) key(name string) string { return d.below + name }

// get reads a CRD with its schemas. The caller owns the result.
func (d *definitions) get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	obj, err := d.whole.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err // an API status: not found, or the store's error
	}
	return toV1(obj.(*apiextensions.CustomResourceDefinition))
}

// getMetadata reads a CRD without its schemas.
func (d *definitions) getMetadata(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensions.CustomResourceDefinition{}
	if err := d.metadata.Get(ctx, d.key(name), storage.GetOptions{}, crd); err != nil {
		return nil, storageerrors.InterpretGetError(err, apiextensions.Resource("customresourcedefinitions"), name)
	}
	return toV1(crd)
}

// listLight reads all CRDs, page by page.
func (d *definitions) listLight(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	all := &apiextensionsv1.CustomResourceDefinitionList{}
	for {
		page, predicate := &apiextensions.CustomResourceDefinitionList{}, storage.Everything
		predicate.Limit, predicate.Continue = listPage, all.Continue
		err := d.metadata.GetList(ctx, d.prefix, storage.ListOptions{Predicate: predicate, Recursive: true}, page)
		if err != nil {
			return nil, storageerrors.InterpretListError(err, apiextensions.Resource("customresourcedefinitions"))
		}
		for i := range page.Items {
			light, err := lightOf(&page.Items[i])
			if err != nil {
				return nil, err
			}
			all.Items = append(all.Items, *light)
		}
		all.ListMeta = page.ListMeta
		if page.Continue == "" {
			return all, nil
		}
	}
}

// watchLight watches all CRDs.
func (d *definitions) watchLight(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	predicate := storage.Everything
	predicate.AllowWatchBookmarks = options.AllowWatchBookmarks
	watcher, err := d.metadata.Watch(ctx, d.prefix, storage.ListOptions{
		ResourceVersion: options.ResourceVersion, Predicate: predicate, Recursive: true, ProgressNotify: true,
	})
	if err != nil {
		return nil, fmt.Errorf("watch CustomResourceDefinitions in the store: %w", err)
	}
	return watch.Filter(watcher, func(event watch.Event) (watch.Event, bool) {
		if crd, ok := event.Object.(*apiextensions.CustomResourceDefinition); ok {
			light, err := lightOf(crd)
			if err != nil {
				failure := apierrors.NewInternalError(err).Status()
				return watch.Event{Type: watch.Error, Object: &failure}, true
			}
			event.Object = light
		}
		return event, true
	}), nil
}

// lightSource is a [cache.ListerWatcher] of light CRDs.
type lightSource struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported has the reflector list: see
// [k8s.io/client-go/util/watchlist.DoesClientNotSupportWatchListSemantics].
func (lightSource) IsWatchListSemanticsUnSupported() bool { return true }

func (d *definitions) source() cache.ListerWatcher {
	return lightSource{&cache.ListWatch{ListWithContextFunc: d.listLight, WatchFuncWithContext: d.watchLight}}
}

// lighten drops from crd, in place, what takes memory and is for serving and
// documentation only: schemas, printer columns, selectable fields, managed fields and
// the last applied configuration.
func lighten(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.ManagedFields = nil
	delete(crd.Annotations, corev1.LastAppliedConfigAnnotation)
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns, version.SelectableFields = nil, nil, nil
	}
}

// dropSchemas drops, in place, what is for serving and documentation only.
func dropSchemas(crd *apiextensions.CustomResourceDefinition) {
	crd.Spec.Validation, crd.Spec.AdditionalPrinterColumns, crd.Spec.SelectableFields = nil, nil, nil
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns, version.SelectableFields = nil, nil, nil
	}
}

// toV1 converts what the storage holds. The result shares memory with crd.
func toV1(crd *apiextensions.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	out := &apiextensionsv1.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(crd, out,
		nil); err != nil {
		return nil, fmt.Errorf("convert CustomResourceDefinition %s to v1: %w", crd.Name, err)
	}
	return out, nil
}

// lightOf is a light copy of what the storage holds; it shares no memory with
// crd.
func lightOf(crd *apiextensions.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	copied := *crd
	copied.ManagedFields = nil
	copied.Spec.Versions = slices.Clone(crd.Spec.Versions)
	dropSchemas(&copied)
	light, err := toV1(copied.DeepCopy())
	if err != nil {
		return nil, err
	}
	lighten(light)
	return light, nil
}

// resync is that of upstream's informer of CRDs.
const resync = 5 * time.Minute

// lightInformer is the one informer of CRDs in this process. What it holds has
// no schemas.
type lightInformer struct{ informer cache.SharedIndexInformer }

var _ informers.CustomResourceDefinitionInformer = lightInformer{}

func newLightInformer(source cache.ListerWatcher) lightInformer {
	return lightInformer{cache.NewSharedIndexInformerWithOptions(source, &apiextensionsv1.CustomResourceDefinition{},
		cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: cache.Indexers{}})}
}

// Informer implements [informers.CustomResourceDefinitionInformer].
func (l lightInformer) Informer() cache.SharedIndexInformer { return l.informer }

// Lister implements [informers.CustomResourceDefinitionInformer].
func (l lightInformer) Lister() listers.CustomResourceDefinitionLister {
	return listers.NewCustomResourceDefinitionLister(l.informer.GetIndexer())
}
