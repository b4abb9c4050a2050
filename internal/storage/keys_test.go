package storage

import (
	"context"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	kubestorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// fixedGetter stores every resource at its prefix, or at its group and name.
type fixedGetter struct {
	prefix string
	codec  runtime.Codec
}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (g fixedGetter) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	prefix := g.prefix
	if prefix == "" {
		prefix = resource.Group + "/" + resource.Resource
	}
	config := &storagebackend.Config{Prefix: "/registry", Codec: g.codec, EventsHistoryWindow: 2 * time.Minute}
	return generic.RESTOptions{StorageConfig: config.ForResource(resource), ResourcePrefix: prefix}, nil
}

// admitAll is a strategy for namespaced objects.
type admitAll struct {
	runtime.ObjectTyper
	names.NameGenerator
}

func (admitAll) NamespaceScoped() bool                                     { return true }
func (admitAll) PrepareForCreate(context.Context, runtime.Object)          {}
func (admitAll) Validate(context.Context, runtime.Object) field.ErrorList  { return nil }
func (admitAll) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }
func (admitAll) Canonicalize(runtime.Object)                               {}

// TestHasObjectsOfAStore: what a registry of Kubernetes has stored is found,
// with and without a watch cache.
func TestHasObjectsOfAStore(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(corev1.SchemeGroupVersion)
	resource := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for name, cached := range map[string]bool{"cached": true, "uncached": false} {
		t.Run(name, func(t *testing.T) {
			s, _ := newStorage(t)
			getter, err := s.CustomResourceGetter(fixedGetter{codec: codec}, func(schema.GroupResource) bool { return cached })
			if err != nil {
				t.Fatal(err)
			}
			registry := &genericregistry.Store{
				NewFunc:                   func() runtime.Object { return &corev1.ConfigMap{} },
				NewListFunc:               func() runtime.Object { return &corev1.ConfigMapList{} },
				DefaultQualifiedResource:  resource,
				SingularQualifiedResource: schema.GroupResource{Group: resource.Group, Resource: "widget"},
				CreateStrategy:            admitAll{scheme, names.SimpleNameGenerator},
				DeleteStrategy:            admitAll{scheme, names.SimpleNameGenerator},
				TableConvertor:            rest.NewDefaultTableConvertor(resource),
			}
			if err := registry.CompleteWithOptions(&generic.StoreOptions{RESTOptions: getter}); err != nil {
				t.Fatal(err)
			}
			defer registry.DestroyFunc()
			ctx := request.WithNamespace(t.Context(), "full")
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "full", Name: "w"}}
			if _, err := registry.Create(ctx, object, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for namespace, want := range map[string]bool{"full": true, "ful": false, "empty": false} {
				if got, err := s.HasObjects(t.Context(), resource, namespace); err != nil || got != want {
					t.Errorf("%s: %v, %v", namespace, got, err)
				}
			}
		})
	}
}

// TestUnexpectedPrefixFailsTheStart: a namespace would be deleted without its
// objects otherwise.
func TestUnexpectedPrefixFailsTheStart(t *testing.T) {
	s, _ := newStorage(t)
	_, err := s.CustomResourceGetter(fixedGetter{prefix: "crs/widgets"}, nil)
	if err == nil || !strings.Contains(err.Error(), `custom resources are stored at "crs/widgets"`) {
		t.Errorf("got %v", err)
	}
}

// TestWatchProgressIsDetected: without it every consistent read goes to etcd.
func TestWatchProgressIsDetected(t *testing.T) {
	newStorage(t)
	awaitWatchProgress(t)
}

// awaitWatchProgress waits until etcd is known to report the progress of watches.
func awaitWatchProgress(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !feature.DefaultFeatureSupportChecker.Supports(kubestorage.RequestWatchProgress) {
		if time.Now().After(deadline) {
			t.Fatal("etcd is not known to report the progress of watches")
		}
		goruntime.Gosched()
	}
}
