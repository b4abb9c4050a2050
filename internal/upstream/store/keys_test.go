package store_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// TestCutKey: the resource of a key, also where Kubernetes stores it under another name.
func TestCutKey(t *testing.T) {
	for key, want := range map[string]schema.GroupResource{
		"/secrets/team/a":                             {Resource: "secrets"},
		"deployments/team/a":                          {Resource: "deployments"},
		"/example.com/widgets/team/a":                 {Group: "example.com", Resource: "widgets"},
		"/example.com/services/specs/a":               {Group: "example.com", Resource: "services"},
		"/ranges/serviceips":                          {Resource: "ranges"},
		"/services/specs/specs/services":              {Resource: "services"},
		"/apiextensions.k8s.io/customresources/a.b.c": {Group: "apiextensions.k8s.io", Resource: "customresources"},
	} {
		if got, _ := store.CutKey(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if len(kubeapiserver.SpecialDefaultResourcePrefixes) < 6 {
		t.Errorf("the resources under other names are %v", kubeapiserver.SpecialDefaultResourcePrefixes)
	}
	for resource, prefix := range kubeapiserver.SpecialDefaultResourcePrefixes {
		got, rest := store.CutKey("/" + prefix + "/team/a")
		if got.Resource != resource.Resource || got.Group != "" || rest != "team/a" {
			t.Errorf("%s is stored at %s: found %s and %s", resource, prefix, got, rest)
		}
	}
}

// TestKeysOfStores: the keys that the stores of Kubernetes make are those of their
// resources, namespaces and names, for built-in and for custom resources.
func TestKeysOfStores(t *testing.T) {
	config := kubeapiserver.NewStorageFactoryConfig()
	config.APIResourceConfig = serverstorage.NewResourceConfig()
	builtIn, err := config.Complete(options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))).New()
	if err != nil {
		t.Fatal(err)
	}
	custom := options.SimpleStorageFactory{}
	prefixes, single := map[schema.GroupResource]string{}, map[string]struct{}{}
	for _, types := range []map[string][]string{kube.StoredTypes, workloads.StoredTypes} {
		for group, names := range types {
			for _, name := range names {
				resource := schema.GroupResource{Group: group, Resource: name}
				prefixes[resource] = builtIn.ResourcePrefix(resource)
				if got := workloads.KeyPrefix(resource); got != prefixes[resource] {
					t.Errorf("%s is stored at %s, not at %s", resource, prefixes[resource], got)
				}
			}
		}
	}
	for _, resource := range []schema.GroupResource{
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, {Group: "apiregistration.k8s.io", Resource: "apiservices"},
		{Group: "example.com", Resource: "widgets"}, {Group: "example.com", Resource: "services"},
	} {
		prefixes[resource] = custom.ResourcePrefix(resource)
		if got := store.CustomResourcePrefix(resource); got != prefixes[resource] {
			t.Errorf("%s is stored at %s, not at %s", resource, prefixes[resource], got)
		}
	}
	for _, prefix := range prefixes {
		if store.HasOwnSegment(prefix) {
			single[prefix] = struct{}{}
		}
	}
	for resource, prefix := range prefixes {
		namespaced, err := genericregistry.NamespaceKeyFunc(request.WithNamespace(t.Context(), "team"), "/"+prefix, "a")
		if err != nil {
			t.Fatal(err)
		}
		cluster, err := genericregistry.NoNamespaceKeyFunc(t.Context(), "/"+prefix, "a")
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{namespaced: "team", cluster: ""} {
			found, namespace, name := store.SplitKey(key)
			if found.Resource != resource.Resource || found.Group != "" && found.Group != resource.Group || namespace != want || name != "a" {
				t.Errorf("%s is that of %s %s/%s", key, found, namespace, name)
			}
			if store.MayBeInNamespace(key, "team") != (want == "team") || store.MayBeInNamespace(key, "tea") {
				t.Errorf("%s has another namespace", key)
			}
			if got := store.ResourcePrefix([]byte(strings.TrimPrefix(key, "/")), single); string(got) != prefix {
				t.Errorf("the prefix of %s is %s", key, got)
			}
		}
	}
	namespace, err := genericregistry.NoNamespaceKeyFunc(t.Context(), "/"+builtIn.ResourcePrefix(schema.GroupResource{Resource: "namespaces"}), "team")
	if err != nil || !store.MayBeInNamespace(namespace, "team") || store.MayBeInNamespace(namespace, "tea") {
		t.Errorf("the namespace is stored at %s, %v", namespace, err)
	}
}
