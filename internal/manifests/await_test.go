package manifests

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// crdCondition is a condition of a CRD that has it from a time on.
type crdCondition struct {
	after                         time.Duration
	kind, status, reason, message string
}

// awaited returns an applier, and a CRD that has the last of the conditions of a type.
func awaited(conditions ...crdCondition) (*Applier, object) {
	gvk := schema.GroupVersionKind{Group: crdKind.Group, Version: "v1", Kind: crdKind.Kind}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{gvk.GroupVersion()})
	mapper.Add(gvk, meta.RESTScopeRoot)
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(gvk)
	crd.SetName("widgets.example.com")
	client := fake.NewSimpleDynamicClient(runtime.NewScheme())
	began := time.Now()
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		latest := map[string]crdCondition{}
		var order []string
		for _, c := range conditions {
			if time.Since(began) < c.after {
				continue
			}
			if _, ok := latest[c.kind]; !ok {
				order = append(order, c.kind)
			}
			latest[c.kind] = c
		}
		var list []any
		for _, kind := range order {
			list = append(list, map[string]any{"type": kind, "status": latest[kind].status, "reason": latest[kind].reason, "message": latest[kind].message})
		}
		found := crd.DeepCopy()
		return true, found, unstructured.SetNestedSlice(found.Object, list, "status", "conditions")
	})
	return &Applier{Config: Config{Log: slog.New(slog.DiscardHandler)}, client: client,
		mapper: staticMapper{mapper}}, object{crd, "a.yaml"}
}

// TestRefusedNamesAreReported: a CRD whose names another one has is not waited for, unless
// they are accepted in a moment.
func TestRefusedNamesAreReported(t *testing.T) {
	conflict := crdCondition{0, "NamesAccepted", "False", "KindConflict", `"Widget" is already in use`}
	waits := crdCondition{0, "Established", "False", "NotAccepted", "not all names are accepted"}
	for name, test := range map[string]struct {
		conditions []crdCondition
		want       []string // in the error
		long       bool     // it waits for establishTimeout
	}{
		"refused": {[]crdCondition{conflict, waits}, []string{"a.yaml: ", "widgets.example.com is not established", `KindConflict: "Widget" is already in use`, "change the names"}, false},
		"refused for a moment": {[]crdCondition{conflict, waits,
			{conflictTimeout / 2, "NamesAccepted", "True", "NoConflicts", ""}, {conflictTimeout / 2, "Established", "True", "", ""}}, nil, false},
		"installing": {[]crdCondition{{0, "NamesAccepted", "True", "NoConflicts", ""}, {0, "Established", "False", "Installing", "the initial names have been accepted"}},
			[]string{"is not established: Installing: the initial names"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, crd := awaited(test.conditions...)
				began := time.Now()
				err := errors.Join(a.awaitCRDs(t.Context(), []object{crd})...)
				if (err == nil) != (test.want == nil) {
					t.Fatalf("got %v, want %q", err, test.want)
				}
				for _, want := range test.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v lacks %q", err, want)
					}
				}
				if took := time.Since(began); took >= establishTimeout != test.long { // of the bubble's clock
					t.Errorf("it waited %s", took)
				}
			})
		})
	}
}
