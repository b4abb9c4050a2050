package controlplane_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// OldBoatSpec is the spec of the version v1beta1.
type OldBoatSpec struct {
	Size  int    `json:"size"`
	Paint string `json:"paint,omitempty"`
}

// OldBoat is the type of the version v1beta1.
type OldBoat = controlplane.Object[OldBoatSpec, BoatStatus]

// boatsOfTwoVersions are boats that v1beta1 serves with Go types of its own. Validate counts on
// the default.
func boatsOfTwoVersions() controlplane.Resource {
	r := boats()
	r.Versions = []controlplane.ResourceVersion{{
		Version: "v1beta1",
		New:     func() runtime.Object { return &OldBoat{} },
		NewList: func() runtime.Object { return &controlplane.List[OldBoatSpec, BoatStatus]{} },
		ToStored: func(from, to runtime.Object) error {
			old, stored := from.(*OldBoat), to.(*Boat)
			stored.Spec.Length, stored.Spec.Color, stored.Status = old.Spec.Size, old.Spec.Paint, old.Status
			return nil
		},
		FromStored: func(from, to runtime.Object) error {
			stored, old := from.(*Boat), to.(*OldBoat)
			old.Spec.Size, old.Spec.Paint, old.Status = stored.Spec.Length, stored.Spec.Color, stored.Status
			return nil
		},
	}}
	r.Validate = func(_ context.Context, o, _ runtime.Object) field.ErrorList {
		if o.(*Boat).Spec.Color == "" {
			return field.ErrorList{field.Required(field.NewPath("spec", "color"), "the default is missing")}
		}
		return nil
	}
	return r
}

// TestVersions: objects are created, listed, watched and deleted in each version, and Default is
// called before Validate in each.
func TestVersions(t *testing.T) {
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{boatsOfTwoVersions()}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := dynamic.NewForConfigOrDie(cp.RESTConfig())
	stored := client.Resource(boatResource).Namespace("default")
	old := client.Resource(boatResource.GroupResource().WithVersion("v1beta1")).Namespace("default")
	events, err := old.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()

	for _, name := range []string{"one", "two"} {
		object := boat(name, map[string]any{"size": int64(7)})
		object.SetAPIVersion("sea.example.com/v1beta1")
		object.SetLabels(map[string]string{"of": name})
		created, err := old.Create(ctx, object, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		expectBoat(t, "created", created, "v1beta1", name, "size", "paint")
		event := <-events.ResultChan()
		if seen, ok := event.Object.(*unstructured.Unstructured); ok && event.Type == watch.Added {
			expectBoat(t, "watched", seen, "v1beta1", name, "size", "paint")
		} else {
			t.Fatalf("watched: %v", event)
		}
	}
	for version, fields := range map[string][2]string{"v1": {"length", "color"}, "v1beta1": {"size", "paint"}} {
		client := client.Resource(boatResource.GroupResource().WithVersion(version)).Namespace("default")
		page, err := client.List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatalf("list %s: %v", version, err)
		}
		if remaining := page.GetRemainingItemCount(); page.GetKind() != "BoatList" || len(page.Items) != 1 ||
			page.GetResourceVersion() == "" || remaining == nil || *remaining != 1 {
			t.Fatalf("the first page of %s: %v", version, page)
		}
		rest, err := client.List(ctx, metav1.ListOptions{Continue: page.GetContinue()})
		if err != nil || len(rest.Items) != 1 {
			t.Fatalf("the second page of %s: %v, %v", version, rest, err)
		}
		expectBoat(t, "listed", &page.Items[0], version, "one", fields[0], fields[1])
		expectBoat(t, "listed", &rest.Items[0], version, "two", fields[0], fields[1])

		table, err := kubernetes.NewForConfigOrDie(cp.RESTConfig()).Discovery().RESTClient().Get().
			AbsPath("/apis/sea.example.com/"+version+"/boats").Param("includeObject", "Object").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
		if err != nil || !strings.Contains(string(table), `"cells":["two",7,`) || !strings.Contains(string(table), fields[0]) {
			t.Errorf("the table of %s: %s, %v", version, table, err)
		}
	}

	if err := old.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "of=one"}); err != nil {
		t.Errorf("delete a collection: %v", err)
	}
	left, err := stored.List(ctx, metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].GetName() != "two" {
		t.Errorf("after the deletion of one: %v, %v", left, err)
	}
	if err := stored.Delete(ctx, "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if none, err := old.List(ctx, metav1.ListOptions{}); err != nil || none.Items == nil || len(none.Items) != 0 {
		t.Errorf("an empty list: %v, %v", none, err)
	}
}

// expectBoat checks a boat of length 7 and with the default color, which have these fields.
func expectBoat(t *testing.T, what string, o *unstructured.Unstructured, version, name, length, color string) {
	t.Helper()
	size, _, _ := unstructured.NestedInt64(o.Object, "spec", length)
	paint, _, _ := unstructured.NestedString(o.Object, "spec", color)
	if o.GetName() != name || o.GetLabels()["of"] != name || o.GetUID() == "" || size != 7 || paint != "white" ||
		o.GetAPIVersion() != "sea.example.com/"+version {
		t.Errorf("%s in %s: %v", what, version, o.Object)
	}
}

// TestConversionThatPanics: a panic in a conversion is an error of the request, also where upstream
// converts in a goroutine of its own.
func TestConversionThatPanics(t *testing.T) {
	r := boatsOfTwoVersions()
	r.Versions[0].FromStored = func(runtime.Object, runtime.Object) error { panic("a mistake") }
	cp := start(t, controlplane.Options{Resources: []controlplane.Resource{r}})
	client := dynamic.NewForConfigOrDie(cp.RESTConfig())
	boats := client.Resource(boatResource).Namespace("default")
	if _, err := boats.Create(t.Context(), boat("one", map[string]any{"length": int64(7)}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	old := client.Resource(boatResource.GroupResource().WithVersion("v1beta1")).Namespace("default")
	if _, err := old.Get(t.Context(), "one", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), "a function of the program panicked: a mistake") {
		t.Errorf("the answer: %v", err)
	}
	if _, err := old.List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "a function of the program panicked: a mistake") {
		t.Errorf("the answer: %v", err)
	}
}
