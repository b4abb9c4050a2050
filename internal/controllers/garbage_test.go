package controllers

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// owner returns an object; with a policy it is being deleted, and waits for its dependents.
func owner(revision string, policy ...string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.Name, object.ResourceVersion, object.Finalizers = "owner", revision, policy
	if len(policy) > 0 {
		object.DeletionTimestamp = &metav1.Time{}
	}
	return object
}

// TestDeletionsOfOwnersWaitForMonitors: the deletion of an owner waits until the garbage
// collector has listed a type that has got its first object before; other events, and
// deletions after that, do not. A type that cannot be listed delays them for maxDelay once.
func TestDeletionsOfOwnersWaitForMonitors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer("a.example.org/v1")
		server.lists[0].APIResources[0].Verbs = metav1.Verbs{"delete", "list", "watch"}
		content := newStore()
		var synced atomic.Bool
		dependents := schema.GroupVersionResource{Group: "a.example.org", Version: "v1", Resource: "things"}
		order := &deletionOrder{ctx: t.Context(), visible: testVisible(server, content),
			synced: func(resource schema.GroupVersionResource, _ time.Time) bool {
				return resource != dependents || synced.Load()
			}}
		var events atomic.Int32
		handler := order.handler(configMaps, nil, cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { events.Add(1) }, UpdateFunc: func(any, any) { events.Add(1) },
		})
		content.set(5, "a.example.org")
		handler.OnUpdate(owner("4"), owner("5"))
		began := time.Now()
		handler.OnUpdate(owner("5"), owner("6", "example.org/other"))
		if time.Since(began) > 0 {
			t.Error("an object waits that does not wait for dependents")
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			handler.OnUpdate(owner("5"), owner("6", metav1.FinalizerOrphanDependents))
		}()
		time.Sleep(maxDelay / 2)
		if events.Load() != 2 {
			t.Error("the deletion does not wait")
		}
		synced.Store(true)
		<-done
		if time.Since(began) > maxDelay/2+2*monitorPoll {
			t.Error("the deletion waits for too long")
		}
		began = time.Now()
		handler.OnAdd(owner("7", metav1.FinalizerDeleteDependents), false)
		if time.Since(began) > 0 {
			t.Error("a deletion waits though all types are listed")
		}
		server.serve("a.example.org/v1", "b.example.org/v1")
		content.set(9, "a.example.org", "b.example.org")
		order.synced = func(resource schema.GroupVersionResource, _ time.Time) bool { return resource.Group != "b.example.org" }
		for range 2 {
			handler.OnAdd(owner("9", metav1.FinalizerDeleteDependents), false)
		}
		if waited := time.Since(began); waited > maxDelay+2*monitorPoll {
			t.Errorf("a type that cannot be listed delays deletions by %s", waited)
		}
	})
}

// TestDeletionsOfOwnersInTheFirstList: the garbage collector gets the objects of the first list
// of a type in any order, but each deletion that waits for dependents after all of them.
func TestDeletionsOfOwnersInTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dependent := owner("5", metav1.FinalizerDeleteDependents) // an owner itself
		dependent.Name = "dependent"
		deleted := owner("4", metav1.FinalizerOrphanDependents)
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		if err := errors.Join(store.Add(dependent), store.Add(deleted)); err != nil {
			t.Fatal(err)
		}
		order := &deletionOrder{ctx: t.Context(), visible: testVisible(newServer("a.example.org/v1"), newStore()),
			synced: func(schema.GroupVersionResource, time.Time) bool { return true }}
		var got []string
		handler := order.handler(configMaps, listedInformer{store: store}, cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
			name := object.(metav1.Object).GetName()
			if object.(metav1.Object).GetDeletionTimestamp() != nil {
				name += ", deleted"
			}
			got = append(got, name)
		}})
		for _, object := range []any{deleted, dependent} {
			handler.OnAdd(object, true)
		}
		slices.Sort(got[:2]) // the list has no order
		if want := []string{"dependent", "owner", "owner, deleted", "dependent, deleted"}; !slices.Equal(got, want) {
			t.Errorf("got %q instead of %q", got, want)
		}
	})
}

// listedInformer has got its first list.
type listedInformer struct {
	cache.SharedIndexInformer
	store cache.Store
}

func (listedInformer) HasSynced() bool { return true }

func (l listedInformer) GetStore() cache.Store { return l.store }
