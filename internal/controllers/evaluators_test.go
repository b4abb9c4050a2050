package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
