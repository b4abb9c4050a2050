package controlplane_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// BoatSpec is the spec of a type of the tests.
type BoatSpec struct {
	Length int               `json:"length"`
	Color  string            `json:"color,omitempty"`
	Crew   []Sailor          `json:"crew,omitempty" patchMergeKey:"name"`
	Extra  map[string]string `json:"extra,omitempty"`
}

// Sailor is a field of BoatSpec.
type Sailor struct {
	Name string `json:"name"`
	Age  *int32 `json:"age,omitempty"`
}

// BoatStatus is the status.
type BoatStatus struct {
	Afloat bool `json:"afloat,omitempty"`
}

// Boat is the type.
type Boat = controlplane.Object[BoatSpec, BoatStatus]

// boats are served by the tests.
func boats() controlplane.Resource {
	return controlplane.Kind[BoatSpec, BoatStatus]{
		Group: "sea.example.com", Version: "v1", Kind: "Boat", ShortNames: []string{"bo"}, Categories: []string{"all"},
		Default: func(b *Boat) {
			if b.Spec.Color == "" {
				b.Spec.Color = "white"
			}
		},
		Validate: func(_ context.Context, b, _ *Boat) field.ErrorList {
			if b.Spec.Length < 1 {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "length"), b.Spec.Length, "must be positive")}
			}
			return nil
		},
		Columns: []controlplane.KindColumn[BoatSpec, BoatStatus]{{Name: "Length", Type: "integer", Value: func(b *Boat) any { return b.Spec.Length }}},
		Subresources: map[string]controlplane.Subresource{"launch": {Handler: func(ctx context.Context, boats controlplane.Parent, name string) (http.Handler, error) {
			launched, err := boats.Update(ctx, name, func(o runtime.Object) error {
				o.(*Boat).Status.Afloat = true
				return nil
			})
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(launched) }), err
		}}},
	}.Resource()
}

// start runs a control plane until the test ends.
func start(t testing.TB, options controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	cp, err := controlplane.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return cp
}

func boat(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "sea.example.com/v1", "kind": "Boat", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec,
	}}
}

var boatResource = schema.GroupVersionResource{Group: "sea.example.com", Version: "v1", Resource: "boats"}

// TestResource: a Go type is served as a built-in one.
func TestResource(t *testing.T) {
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{boats()}})
	ctx := t.Context()
	client := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(boatResource).Namespace("default")

	created, err := client.Create(ctx, boat("one", map[string]any{"length": int64(7), "status": nil}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if color, _, _ := unstructured.NestedString(created.Object, "spec", "color"); color != "white" || created.GetGeneration() != 1 {
		t.Errorf("created: %v", created.Object)
	}
	if _, err := client.Create(ctx, boat("two", map[string]any{"length": int64(0)}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be positive") {
		t.Errorf("an invalid boat: %v", err)
	}
	_, err = client.Create(ctx, boat("three", map[string]any{"length": int64(1), "wings": int64(2)}), metav1.CreateOptions{FieldValidation: "Strict"})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "spec.wings"`) {
		t.Errorf("an unknown field: %v", err)
	}

	applied, err := client.Apply(ctx, "one", boat("one", map[string]any{"length": int64(8), "crew": []any{map[string]any{"name": "ann"}}}), metav1.ApplyOptions{FieldManager: "a", Force: true})
	if err != nil || applied.GetGeneration() != 2 {
		t.Fatalf("apply: %v, %v", applied, err)
	}
	applied, err = client.Apply(ctx, "one", boat("one", map[string]any{"length": int64(8), "crew": []any{map[string]any{"name": "bob"}}}), metav1.ApplyOptions{FieldManager: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if crew, _, _ := unstructured.NestedSlice(applied.Object, "spec", "crew"); len(crew) != 2 {
		t.Errorf("two appliers of a list with keys have made %v", crew)
	}

	// The status changes through its subresource, and the spec through the resource only.
	status := applied.DeepCopy()
	_ = unstructured.SetNestedField(status.Object, true, "status", "afloat")
	_ = unstructured.SetNestedField(status.Object, int64(99), "spec", "length")
	updated, err := client.UpdateStatus(ctx, status, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	length, _, _ := unstructured.NestedInt64(updated.Object, "spec", "length")
	if afloat, _, _ := unstructured.NestedBool(updated.Object, "status", "afloat"); !afloat || length != 8 || updated.GetGeneration() != applied.GetGeneration() {
		t.Errorf("after an update of the status: %v", updated.Object)
	}
	patched, err := client.Patch(ctx, "one", types.MergePatchType, []byte(`{"status":{"afloat":false}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if afloat, _, _ := unstructured.NestedBool(patched.Object, "status", "afloat"); !afloat {
		t.Error("a patch of the resource has changed the status")
	}

	raw := kubernetes.NewForConfigOrDie(cp.RESTConfig()).Discovery().RESTClient()
	table, err := raw.Get().AbsPath("/apis/sea.example.com/v1/boats").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil || !strings.Contains(string(table), `"name":"Length","type":"integer"`) || !strings.Contains(string(table), `"cells":["one",8,`) {
		t.Errorf("the table is %s, %v", table, err)
	}
	document, err := raw.Get().AbsPath("/openapi/v3/apis/sea.example.com/v1").DoRaw(ctx)
	if err != nil || !strings.Contains(string(document), "x-kubernetes-list-map-keys") || !strings.Contains(string(document), `"kind":"Boat"`) {
		t.Errorf("OpenAPI is %.300s, %v", document, err)
	}
}

// TestSubresource: a handler gets the object, and RBAC decides who may call it.
func TestSubresource(t *testing.T) {
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{boats()}})
	client := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(boatResource).Namespace("default")
	if _, err := client.Create(t.Context(), boat("one", map[string]any{"length": int64(7)}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const path = "/apis/sea.example.com/v1/namespaces/default/boats/one/launch"
	raw := kubernetes.NewForConfigOrDie(cp.RESTConfig()).Discovery().RESTClient()
	if answer, err := raw.Post().AbsPath(path).DoRaw(t.Context()); err != nil || !strings.Contains(string(answer), `"afloat":true`) {
		t.Errorf("the subresource returned %s, %v", answer, err)
	}
	other := kubernetes.NewForConfigOrDie(cp.RESTConfigFor("jane", "developers")).Discovery().RESTClient()
	if _, err := other.Post().AbsPath(path).DoRaw(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights: %v", err)
	}
}
