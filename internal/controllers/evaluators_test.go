package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// TestEvaluatorsFollowTheTypes: a type has an evaluator while it is served, and after that
// if a quota names it.
func TestEvaluatorsFollowTheTypes(t *testing.T) {
	s := newServer()
	d := testDiscoverer(s)
	named := newNamedTypes()
	named.handler().OnAdd(&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{UID: "quota"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{"count/things.b.example.org": resource.MustParse("3")},
	}}, false)
	e := &evaluators{types: d, named: named, registry: generic.NewRegistry(nil)}
	expect := func(want map[string]bool, groupVersions ...string) {
		t.Helper()
		s.serve(groupVersions...)
		for _, list := range s.lists {
			list.APIResources[0].Verbs = metav1.Verbs{"create", "delete", "list", "watch"} // quotas count these types only
		}
		query(t, d)
		e.addAll()
		for group, want := range want {
			if got := e.registry.Get(schema.GroupResource{Group: group, Resource: "things"}) != nil; got != want {
				t.Errorf("with %q, things of %q have an evaluator: %t", groupVersions, group, got)
			}
		}
	}
	expect(map[string]bool{"": true, "a.example.org": true, "b.example.org": true}, "v1", "a.example.org/v1", "b.example.org/v1")
	expect(map[string]bool{"": true, "a.example.org": false, "b.example.org": true}, "v1")
	expect(map[string]bool{"": true, "a.example.org": true, "b.example.org": true}, "v1", "a.example.org/v1")
}

// notifyingRegistry tells when an evaluator is added.
type notifyingRegistry struct {
	quota.Registry
	added chan struct{}
}

// Add implements [quota.Registry].
func (n notifyingRegistry) Add(e quota.Evaluator) {
	n.Registry.Add(e)
	n.added <- struct{}{}
}

// TestEvaluatorOfANewTypeStays: evaluators of absent types are removed while the controller
// adds those of a type that is served since.
func TestEvaluatorOfANewTypeStays(t *testing.T) {
	s := newServer()
	d := testDiscoverer(s)
	named := newNamedTypes()
	registry := notifyingRegistry{generic.NewRegistry(nil), make(chan struct{}, 2)}
	e := &evaluators{types: d, named: named, registry: registry}
	serve := func(groupVersions ...string) {
		s.serve(groupVersions...)
		for _, list := range s.lists {
			list.APIResources[0].Verbs = metav1.Verbs{"create", "delete", "list", "watch"}
		}
		query(t, d)
	}
	serve("a.example.org/v1")
	named.mu.Lock() // addAll stops before the removal
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.addAll()
	}()
	<-registry.added
	serve("a.example.org/v1", "b.example.org/v1")
	lists, _, _ := d.snapshot()
	e.add(lists)
	named.mu.Unlock()
	<-done
	if registry.Get(schema.GroupResource{Group: "b.example.org", Resource: "things"}) == nil {
		t.Error("the evaluator of the new type was removed")
	}
}
