package controllers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
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
	e := &evaluators{types: testDiscoverer(s), named: newNamedTypes(), informers: set, registry: generic.NewRegistry(nil)}
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
