package store_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// TestServedVersions: the objects of each built-in type are converted to a version that
// the API has by default, unless it has the type in none.
func TestServedVersions(t *testing.T) {
	served := controlplane.DefaultAPIResourceConfigSource()
	config := kubeapiserver.NewStorageFactoryConfig()
	config.APIResourceConfig = served
	factory, err := config.Complete(options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))).New()
	if err != nil {
		t.Fatal(err)
	}
	checked, converted := 0, 0
	for version := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(version)
		if !isStored(plural.GroupResource()) {
			continue
		}
		if stored, err := factory.ResourceEncodingConfig.StorageEncodingFor(plural.GroupResource()); err != nil {
			t.Fatal(err)
		} else if stored != version.GroupVersion() {
			continue
		}
		checked++
		want := store.ServedVersion(version)
		if !served.ResourceEnabled(want.GroupVersion().WithResource(plural.Resource)) {
			for _, other := range scheme.Scheme.VersionsForGroupKind(version.GroupKind()) {
				if served.ResourceEnabled(other.WithResource(plural.Resource)) {
					t.Errorf("%s is stored as %s and read as %s; the API has %s", plural.Resource, version.GroupVersion(), want.GroupVersion(), other)
				}
			}
		}
		object, err := scheme.Scheme.New(version)
		if err != nil {
			t.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(version)
		if object, err = store.ToServedVersion(object); err != nil || object.GetObjectKind().GroupVersionKind() != want {
			t.Errorf("%s becomes %T, %v", version, object, err)
		}
		if want != version {
			converted++
		}
	}
	if checked < 40 || converted == 0 {
		t.Errorf("%d of %d built-in types are converted: if none is stored in an older version any more, correct the fact", converted, checked)
	}
}

// isStored reports whether built-in objects of the resource are stored.
func isStored(resource schema.GroupResource) bool {
	for _, types := range []map[string][]string{kube.StoredTypes, workloads.StoredTypes} {
		for _, name := range types[resource.Group] {
			if name == resource.Resource {
				return true
			}
		}
	}
	return false
}
