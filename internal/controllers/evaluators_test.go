package controllers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
)

// TestEvaluatorFollowsTheServedVersion: when the version that a quota counted in is not
// served any more, it counts in the one that is.
func TestEvaluatorFollowsTheServedVersion(t *testing.T) {
	s := newServer()
	set := testInformers(t)
	feeds := make(chan *testFeed, 2)
	set.follow = func(schema.GroupResource) (Feed, error) {
		feed := newTestFeed()
		feeds <- feed
		return feed, nil
	}
	e := &evaluators{types: testDiscoverer(s), informers: set, registry: generic.NewRegistry(nil)}
	quotas := set.newMonitors()
	objects := []*metav1.PartialObjectMetadata{storedObject("a", "1", "10"), storedObject("b", "2", "11")}
	for _, version := range []string{"v1beta1", "v1"} {
		gv := schema.GroupVersion{Group: "a.example.org", Version: version}
		s.serve(gv.String())
		s.lists[0].APIResources[0].Verbs = metav1.Verbs{"create", "delete", "list", "watch"}
		query(t, e.types)
		e.addAll()
		resource := gv.WithResource("things")
		_, stop, ended := runningMonitor(t, quotas, resource)
		set.Start(t.Context().Done())
		(<-feeds).lists <- objects
		synced := func(context.Context) (bool, error) { return quotas.synced(resource), nil }
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, synced); err != nil {
			t.Fatal(err)
		}
		name := corev1.ResourceName("count/" + resource.GroupResource().String())
		usage, err := e.registry.Get(resource.GroupResource()).UsageStats(quota.UsageStatsOptions{Namespace: objects[0].Namespace, Resources: []corev1.ResourceName{name}})
		if used := usage.Used[name]; err != nil || used.Value() != int64(len(objects)) {
			t.Errorf("%s: used %v, want %d: %v", version, used.Value(), len(objects), err)
		}
		close(stop)
		<-ended
		objects = objects[:1]
	}
}
