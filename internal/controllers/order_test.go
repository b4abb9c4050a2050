package controllers

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// recorder is the garbage collector's handler.
type recorder struct{ events chan string }

func (r recorder) OnAdd(obj any, _ bool) { r.events <- "add " + state(obj) }
func (r recorder) OnUpdate(_, obj any)   { r.events <- "update " + state(obj) }
func (r recorder) OnDelete(obj any)      { r.events <- "delete " + state(obj) }
func (r recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-r.events:
			if got != w {
				t.Errorf("got %q, want %q", got, w)
			}
		case <-t.Context().Done():
		}
	}
}

func (r recorder) expectNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-r.events:
		t.Errorf("got %q too early", got)
	default:
	}
}

func state(obj any) string {
	o := obj.(*metav1.PartialObjectMetadata)
	if o.DeletionTimestamp != nil {
		return o.Name + " deleting"
	}
	return o.Name
}

func stored(name string, revision int, finalizers ...string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.Name, o.UID, o.ResourceVersion, o.Finalizers = name, types.UID(name), strconv.Itoa(revision), finalizers
	return o
}

func deleting(name string, revision int, finalizers ...string) *metav1.PartialObjectMetadata {
	o := stored(name, revision, finalizers...)
	now := metav1.NewTime(time.Unix(1, 0))
	o.DeletionTimestamp = &now
	return o
}

// testOrder has a type with an object whose monitor has not been synced.
func testOrder(t *testing.T) (cache.ResourceEventHandler, *deletionOrder, recorder, *atomic.Bool) {
	t.Helper()
	content := newStore()
	v := testVisible(newServer("a.example.org/v1"), content)
	now := time.Now()
	v.now = func() time.Time { return now }
	content.set(100, "a.example.org")
	update(t, v)
	synced := &atomic.Bool{}
	order := newDeletionOrder(v, func(schema.GroupVersionResource) bool { return synced.Load() })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		order.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	r := recorder{make(chan string, 10)}
	return order.handler(schema.GroupVersionResource{Group: "b.example.org", Version: "v1", Resource: "owners"}, r), order, r, synced
}

func TestDeletionsOfOwnersWaitForMonitors(t *testing.T) {
	h, _, r, synced := testOrder(t)
	h.OnAdd(stored("owner", 1), true)
	h.OnUpdate(stored("owner", 1), deleting("owner", 50, metav1.FinalizerOrphanDependents))
	h.OnUpdate(deleting("owner", 50, metav1.FinalizerOrphanDependents), deleting("owner", 60, metav1.FinalizerOrphanDependents, "another"))
	h.OnAdd(deleting("listed", 51, metav1.FinalizerDeleteDependents), true)
	r.expect(t, "add owner", "add listed")
	r.expectNothing(t)
	synced.Store(true)
	got := []string{<-r.events, <-r.events}
	slices.Sort(got)
	if want := []string{"update listed deleting", "update owner deleting"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	h.OnUpdate(stored("later", 70), deleting("later", 71, metav1.FinalizerOrphanDependents))
	r.expect(t, "update later deleting")
}

// TestOtherEventsDoNotWait: events of other objects, and the removal of an object whose
// deletion is delayed, pass at once.
func TestOtherEventsDoNotWait(t *testing.T) {
	h, _, r, synced := testOrder(t)
	h.OnUpdate(stored("owner", 1), deleting("owner", 50, metav1.FinalizerOrphanDependents))
	h.OnUpdate(stored("other", 1), stored("other", 51))
	h.OnUpdate(stored("held", 1), deleting("held", 52, "example.com/another"))
	h.OnDelete(deleting("owner", 53))
	r.expect(t, "update other", "update held deleting", "delete owner deleting")
	synced.Store(true)
	h.OnUpdate(stored("last", 1), deleting("last", 54, metav1.FinalizerOrphanDependents))
	r.expect(t, "update last deleting") // and nothing of owner in between
}

// TestEventsDoNotWaitAfterTheEnd: events after the end of the garbage collector do not block.
func TestEventsDoNotWaitAfterTheEnd(t *testing.T) {
	_, running, r, _ := testOrder(t)
	order := newDeletionOrder(running.visible, running.synced)
	h := order.handler(schema.GroupVersionResource{Group: "b.example.org", Version: "v1", Resource: "owners"}, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	order.run(ctx)
	h.OnUpdate(stored("owner", 1), deleting("owner", 50, metav1.FinalizerOrphanDependents))
	if len(order.delayed) != 0 {
		t.Errorf("%d deletions are delayed after the end", len(order.delayed))
	}
}

// TestTypeThatCannotBeListedDelaysEventsBriefly: its monitor may never sync.
func TestTypeThatCannotBeListedDelaysEventsBriefly(t *testing.T) {
	h, order, r, _ := testOrder(t)
	visible := order.visible
	visible.mu.Lock()
	for _, own := range visible.own {
		own.since = own.since.Add(-maxDelay)
	}
	visible.mu.Unlock()
	h.OnUpdate(stored("owner", 1), deleting("owner", 50, metav1.FinalizerOrphanDependents))
	r.expect(t, "update owner deleting")
}
