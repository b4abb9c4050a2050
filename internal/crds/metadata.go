package crds

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic"
	genericstore "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// readKey is the context key of the way in which a list, a watch or a deletion of a collection
// reads CustomResourceDefinitions.
type readKey struct{}

// The values of readKey. Without one, upstream's storage is read.
const (
	readMetadata = "metadata"
	readWhole    = "whole"
)

func readsAs(ctx context.Context, what string) bool { return ctx.Value(readKey{}) == what }

// NegotiateLists marks lists, watches and deletions of collections of CustomResourceDefinitions
// by the content of the response. Tables and metadata, for kubectl get and for the garbage collector, are read
// without schemas. Whole CRDs are read page by page.
func NegotiateLists(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if listsDefinitions(r) {
			media, err := customresources.DefinitionsMediaType(r)
			switch {
			case err != nil: // the API handler answers with the error
			case media.Convert == nil:
				r = r.WithContext(context.WithValue(r.Context(), readKey{}, readWhole))
			case r.URL.Query().Get("includeObject") != string(metav1.IncludeObject):
				r = r.WithContext(context.WithValue(r.Context(), readKey{}, readMetadata))
			}
		}
		next.ServeHTTP(w, r)
	})
}

func listsDefinitions(r *http.Request) bool {
	info, ok := request.RequestInfoFrom(r.Context())
	return ok && info.APIGroup == apiextensions.GroupName &&
		info.Resource == "customresourcedefinitions" && info.Subresource == "" &&
		slices.Contains([]string{"list", "watch", "deletecollection"}, info.Verb)
}

// metadataCodec decodes stored CRDs to the internal version, without schemas.
type metadataCodec struct{ runtime.Codec }

// Decode implements [runtime.Decoder].
func (c metadataCodec) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := c.Codec.Decode(customresources.WithoutSchemas(data), defaults, into)
	if crd, ok := obj.(*apiextensions.CustomResourceDefinition); ok {
		dropSchemas(crd) // of a CRD that is stored in JSON
	}
	return obj, kind, err
}

func (d *definitions) metadataStore(options genericregistry.RESTOptions) (storage.Interface, error) {
	config := *options.StorageConfig
	config.Codec = metadataCodec{config.Codec}
	store, destroy, err := options.Decorator(&config, d.prefix,
		func(obj runtime.Object) (string, error) {
			return d.key(obj.(*apiextensions.CustomResourceDefinition).Name), nil
		},
		func() runtime.Object { return &apiextensions.CustomResourceDefinition{} },
		func() runtime.Object { return &apiextensions.CustomResourceDefinitionList{} },
		customresourcedefinition.GetAttrs, nil, &cache.Indexers{})
	if err != nil {
		return nil, fmt.Errorf("make a store of the metadata of CustomResourceDefinitions: %w", err)
	}
	d.destroys = append(d.destroys, destroy)
	return store, nil
}

// metadataRegistry is whole over the store without schemas, for lists and watches.
func (d *definitions) metadataRegistry(whole *genericstore.Store) *genericstore.Store {
	copied := *whole
	copied.Storage = genericstore.DryRunnableStorage{Storage: d.metadata, Codec: whole.Storage.Codec}
	return &copied
}
