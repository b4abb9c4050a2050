package store_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
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
