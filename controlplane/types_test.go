package controlplane_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/dynamic"
	clientrest "k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// of is a resource whose spec has the Go type.
func of[Spec any](kind string) controlplane.Resource {
	return controlplane.Kind[Spec, struct{}]{Group: "sea.example.com", Version: "v1", Kind: kind}.Resource()
}

type base struct {
	F []string `json:"f,omitempty"`
}

type bare struct {
	metav1.TypeMeta `json:",inline"`
}

func (b *bare) DeepCopyObject() runtime.Object { c := *b; return &c }

type afloat struct {
	bare              `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Common            `json:",inline"`
}

// Common is embedded.
type Common struct {
	Status BoatStatus `json:"status,omitempty"`
}

// TestTypesThatNewRefuses: New names the mistake in Go types that would panic, or be served wrongly,
// later.
func TestTypesThatNewRefuses(t *testing.T) {
	keep := func(runtime.Object, runtime.Object) error { return nil }
	other := of[OldBoatSpec]("Boat")
	version := func(name string, newObject, newList func() runtime.Object) controlplane.Resource {
		r := boats()
		r.Versions = []controlplane.ResourceVersion{{Version: name, New: newObject, NewList: newList, ToStored: keep, FromStored: keep}}
		return r
	}
	noValue := boats()
	noValue.Columns = []controlplane.Column{{Name: "X"}}
	noValueOfKind := controlplane.Kind[BoatSpec, BoatStatus]{Group: "sea.example.com", Version: "v1", Kind: "Boat",
		Columns: []controlplane.KindColumn[BoatSpec, BoatStatus]{{Name: "X"}}}.Resource()
	noList, nilObject, noItems, noMeta := boats(), boats(), boats(), boats()
	noList.NewList = func() runtime.Object { return nil }
	nilObject.New = func() runtime.Object { return (*Boat)(nil) }
	noItems.NewList = noItems.New
	noMeta.New = func() runtime.Object { return &bare{} }
	embedded := boats()
	embedded.New = func() runtime.Object { return &afloat{} }
	named := of[OldBoatSpec]("Boat")
	named.Name = "ships"
	for name, c := range map[string]struct {
		want      string
		resources []controlplane.Resource
	}{
		"one type of two kinds":   {"is the type of the kind Boat too: define a type", []controlplane.Resource{boats(), controlplane.Kind[BoatSpec, BoatStatus]{Group: "sea.example.com", Version: "v1", Kind: "Ship"}.Resource()}},
		"one kind twice":          {"the kind Boat of sea.example.com/v1 is there twice", []controlplane.Resource{boats(), named}},
		"a kind of lists":         {"the kind BoatList of sea.example.com/v1 is there twice", []controlplane.Resource{boats(), of[OldBoatSpec]("BoatList")}},
		"a kind of upstream":      {"the kind ListOptions of sea.example.com/v1 is there twice", []controlplane.Resource{of[OldBoatSpec]("ListOptions")}},
		"the stored version":      {"the kind Boat of sea.example.com/v1 is there twice", []controlplane.Resource{version("v1", other.New, other.NewList)}},
		"a version without name":  {`the version "": its name is wrong`, []controlplane.Resource{version("", other.New, other.NewList)}},
		"a version with spaces":   {`the version "V 1/x": its name is wrong`, []controlplane.Resource{version("V 1/x", other.New, other.NewList)}},
		"a version without types": {`the version "v2": New returns a <nil> that is nil`, []controlplane.Resource{version("v2", noList.NewList, other.NewList)}},
		"a nil list":              {"NewList returns a <nil> that is nil", []controlplane.Resource{noList}},
		"a nil object":            {"BoatStatus] that is nil, or", []controlplane.Resource{nilObject}},
		"a list without items":    {"has no field Items", []controlplane.Resource{noItems}},
		"an object without name":  {"has no metadata", []controlplane.Resource{noMeta}},
		"an embedded status":      {"Status of *controlplane_test.afloat is embedded", []controlplane.Resource{embedded}},
		"a column":                {"a column has no Value", []controlplane.Resource{noValue}},
		"a column of a kind":      {"a column has no Value", []controlplane.Resource{noValueOfKind}},
		"time": {"Boat.Spec.F.wall is not exported", []controlplane.Resource{of[struct {
			F time.Time `json:"f"`
		}]("Boat")}},
		"address": {"give netip.Addr MarshalJSON", []controlplane.Resource{of[struct {
			F []netip.Addr `json:"f"`
		}]("Boat")}},
		"array": {"Boat.Spec.F cannot be patched", []controlplane.Resource{of[struct {
			F [3]byte `json:"f"`
		}]("Boat")}},
		"uint64": {"Boat.Spec.F cannot be patched", []controlplane.Resource{of[struct {
			F []uint64 `json:"f"`
		}]("Boat")}},
		"pointers": {"Boat.Spec.F cannot be patched", []controlplane.Resource{of[struct {
			F **int `json:"f"`
		}]("Boat")}},
		"keys": {"Boat.Spec.F cannot be patched", []controlplane.Resource{of[struct {
			F map[int]string `json:"f"`
		}]("Boat")}},
		"string": {"without the option string", []controlplane.Resource{of[struct {
			F int `json:"f,string"`
		}]("Boat")}},
		"no tag":                       {"Boat.Spec.F needs a tag json", []controlplane.Resource{of[struct{ F int }]("Boat")}},
		"embedded":                     {"Boat.Spec.base is not exported", []controlplane.Resource{of[struct{ base }]("Boat")}},
		"a field of a further version": {`the version "v2": Boat.Spec.F`, []controlplane.Resource{version("v2", of[struct{ F int }]("").New, other.NewList)}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := controlplane.New(controlplane.Options{Resources: c.resources}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New returned %v, want %q", err, c.want)
			}
		})
	}
	// What is not stored is not patched.
	tides := controlplane.Kind[struct{ At time.Time }, struct{}]{Group: "sea.example.com", Version: "v1", Kind: "Tide",
		List: func(context.Context, *clientrest.Config, string) ([]controlplane.Object[struct{ At time.Time }, struct{}], error) {
			return nil, nil
		}}.Resource()
	// Nor has it a subresource status by itself.
	scaled := boats()
	scaled.Storage = func(controlplane.StorageEnvironment) (rest.Storage, error) { return scales{}, nil }
	scaled.Subresources = map[string]controlplane.Subresource{
		"status": {Storage: func(controlplane.Parent) (rest.Storage, error) { return scales{}, nil }}}
	if _, err := controlplane.New(controlplane.Options{Resources: []controlplane.Resource{tides, scaled}}); err != nil {
		t.Error(err)
	}
}

// level has a JSON of its own.
type level int

func (l level) MarshalJSON() ([]byte, error) {
	return []byte(`"` + strings.Repeat("x", int(l)) + `"`), nil
}
func (l *level) UnmarshalJSON(b []byte) error {
	*l = level(len(b) - 2)
	return nil
}

// TestFieldsOfAnyJSON: fields with any JSON have managers, and are applied and patched.
func TestFieldsOfAnyJSON(t *testing.T) {
	type spec struct {
		Values map[string]any  `json:"values,omitempty"`
		One    any             `json:"one,omitempty"`
		Raw    json.RawMessage `json:"raw,omitempty"`
		Level  level           `json:"level,omitempty"`
		At     metav1.Time     `json:"at,omitempty"`

		Pod       *corev1.PodTemplateSpec    `json:"pod,omitempty"`
		Extension runtime.RawExtension       `json:"extension,omitzero"`
		Object    *unstructured.Unstructured `json:"object,omitempty"`
		Wait      metav1.Duration            `json:"wait,omitzero"`
	}
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{of[spec]("Boat")}})
	client := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(boatResource).Namespace("default")
	fields := map[string]any{"values": map[string]any{"a": int64(1), "b": []any{"x"}}, "one": "text", "raw": map[string]any{"c": []any{int64(1)}},
		"level": "xx", "at": "2026-01-02T03:04:05Z"}
	created, err := client.Create(t.Context(), boat("one", fields), metav1.CreateOptions{})
	if err != nil || len(created.GetManagedFields()) != 1 {
		t.Fatalf("created: %v, %v", created, err)
	}
	applied, err := client.Apply(t.Context(), "two", boat("two", fields), metav1.ApplyOptions{FieldManager: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedFieldNoCopy(applied.Object, "spec", "raw", "c"); len(got.([]any)) != 1 {
		t.Errorf("applied: %v", applied.Object)
	}
	if _, err := client.Apply(t.Context(), "two", boat("two", nil), metav1.ApplyOptions{FieldManager: "a"}); err != nil {
		t.Error(err)
	}
	if _, err := client.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"one":[2],"level":"x"}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

func clara() controlplane.Resource {
	type spec struct {
		C string `json:"c"`
	}
	return of[spec]("Clara")
}

func dora() controlplane.Resource {
	type spec struct {
		D string `json:"d"`
	}
	return of[spec]("Dora")
}

// TestTypesOfTheSameName: kinds whose types have no name, or a local one, have schemas of their own.
func TestTypesOfTheSameName(t *testing.T) {
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{clara(), dora(), of[struct {
		A string `json:"a"`
	}]("Anna"), of[struct {
		B string `json:"b"`
	}]("Berta")}})
	client := dynamic.NewForConfigOrDie(cp.RESTConfig())
	for _, kind := range []string{"Anna", "Berta", "Clara", "Dora"} {
		object := boat("one", map[string]any{strings.ToLower(kind[:1]): "x"})
		object.SetKind(kind)
		resource := boatResource.GroupVersion().WithResource(strings.ToLower(kind) + "s")
		if _, err := client.Resource(resource).Namespace("default").Apply(t.Context(), "one", object, metav1.ApplyOptions{FieldManager: "a"}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestNamesOfGoTypes: objects have the names that custom resources may have.
func TestNamesOfGoTypes(t *testing.T) {
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{boats()}})
	client := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(boatResource).Namespace("default")
	for name, valid := range map[string]bool{"a b": false, "UPPER_case": false, "a:b": false, "": false, "a.b-c": true} {
		if _, err := client.Create(t.Context(), boat(name, map[string]any{"length": int64(1)}), metav1.CreateOptions{}); valid != (err == nil) || !valid && !apierrors.IsInvalid(err) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

// TestGoTypesHaveNoProtobuf: clients that prefer protobuf get lists and watches in JSON.
func TestGoTypesHaveNoProtobuf(t *testing.T) {
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{boats()}})
	client := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(boatResource).Namespace("default")
	if _, err := client.Create(t.Context(), boat("one", map[string]any{"length": int64(1)}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	web, err := clientrest.HTTPClientFor(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?watch=true&timeoutSeconds=1"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, cp.RESTConfig().Host+"/apis/sea.example.com/v1/boats"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
		response, err := web.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // all is read
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"name":"one"`) {
			t.Errorf("%q: %s: %s, %v", query, response.Status, body, err)
		}
	}
}

// scales is the subresource scale of boats: the length.
type scales struct{ boats controlplane.Parent }

func (scales) New() runtime.Object { return &autoscalingv1.Scale{} }
func (scales) Destroy()            {}
func (scales) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return autoscalingv1.SchemeGroupVersion.WithKind("Scale")
}

func (s scales) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	object, err := s.boats.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	b := object.(*Boat)
	return &autoscalingv1.Scale{ObjectMeta: b.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: int32(b.Spec.Length)}}, nil
}

func (s scales) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	_ rest.ValidateObjectUpdateFunc, _ bool, _ *metav1.UpdateOptions) (runtime.Object, bool, error) {
	old, err := s.Get(ctx, name, nil)
	if err != nil {
		return nil, false, err
	}
	scale, err := info.UpdatedObject(ctx, old)
	if err != nil {
		return nil, false, err
	}
	_, err = s.boats.Update(ctx, name, func(o runtime.Object) error {
		o.(*Boat).Spec.Length = int(scale.(*autoscalingv1.Scale).Spec.Replicas)
		return nil
	})
	return scale, false, err
}

// TestScale: a subresource may be the scale of autoscaling/v1.
func TestScale(t *testing.T) {
	r := boats()
	r.Subresources["scale"] = controlplane.Subresource{Storage: func(p controlplane.Parent) (rest.Storage, error) { return scales{p}, nil }}
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{r}})
	client := dynamic.NewForConfigOrDie(cp.RESTConfig()).Resource(boatResource).Namespace("default")
	if _, err := client.Create(t.Context(), boat("one", map[string]any{"length": int64(7)}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"spec":{"replicas":9}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	scale, err := client.Get(t.Context(), "one", metav1.GetOptions{}, "scale")
	if err != nil {
		t.Fatal(err)
	}
	if replicas, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas"); replicas != 9 || scale.GetAPIVersion() != "autoscaling/v1" {
		t.Errorf("the scale is %v", scale.Object)
	}
}
