package controlplane

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/apiserver"
)

// TestStoredObjectsThatCannotBeDecoded: a panic of the program's functions, and a version that is
// not served any more, are errors of the codec for stored objects: watches decode them in goroutines
// of upstream's.
func TestStoredObjectsThatCannotBeDecoded(t *testing.T) {
	type spec struct {
		Home *struct {
			City string `json:"city"`
		} `json:"home,omitempty"`
	}
	r := Kind[spec, struct{}]{Group: "sea.example.com", Version: "v1", Kind: "Boat", Default: func(o *Object[spec, struct{}]) {
		o.Spec.Home.City = "Paris" // older objects have no home
	}}.Resource()
	r.Storage = func(StorageEnvironment) (rest.Storage, error) { return &stored{}, nil }
	groups, err := newGroups([]Resource{r})
	if err != nil {
		t.Fatal(err)
	}
	var codec runtime.Codec
	if _, err := groups[0].Install(apiserver.GroupEnvironment{Options: func(c runtime.Codec) generic.RESTOptionsGetter {
		codec = c
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"v1": "a function of the program panicked", "v0": "serve this version, with Resource.Versions"} {
		_, _, err := codec.Decode([]byte(`{"apiVersion":"sea.example.com/`+version+`","kind":"Boat","metadata":{"name":"old"}}`), nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
}
