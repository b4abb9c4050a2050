package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// TestEvaluatorFollowsTheServedVersion: when the version that a quota counted in is not
// served any more, it counts in the one that is.
func TestEvaluatorFollowsTheServedVersion(t *testing.T) {
	s := newServer()
	set := testInformers(t)
	recalculated := false
	e := &evaluators{types: testDiscoverer(s), informers: set, registry: generic.NewRegistry(nil)}
	e.recalculate = func(affected func(*corev1.ResourceQuota) bool) {
		quota := &corev1.ResourceQuota{}
		quota.Spec.Hard = corev1.ResourceList{"count/things.a.example.org": apiresource.MustParse("1")}
		recalculated = affected(quota)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	for _, version := range []string{"v1beta1", "v1"} {
		gv := schema.GroupVersion{Group: "a.example.org", Version: version}
		s.serve(gv.String())
		s.lists[0].APIResources[0].Verbs = metav1.Verbs{"create", "delete", "list", "watch"}
		query(t, e.types)
		recalculated = false
		e.addAll()
		resource := gv.WithResource("things")
		if isNew := version == "v1beta1"; recalculated != isNew {
			t.Errorf("%s: quotas are calculated again: %v", version, recalculated)
		}
		set.watched[resource] = &watchedType{informer: filledInformer(t, object)}
		name := corev1.ResourceName("count/" + resource.GroupResource().String())
		usage, err := e.registry.Get(resource.GroupResource()).UsageStats(quota.UsageStatsOptions{Namespace: "default", Resources: []corev1.ResourceName{name}})
		if used := usage.Used[name]; err != nil || used.Value() != 1 {
			t.Errorf("%s: used %v, want 1: %v", version, used.Value(), err)
		}
		delete(set.watched, resource)
	}
}
