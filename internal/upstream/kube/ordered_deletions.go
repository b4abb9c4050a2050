package kube

import (
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: the garbage collector handles the dependents in its graph
//
// Mirrors: k8s.io/kubernetes/pkg/controller/garbagecollector.GraphBuilder.processGraphChanges
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GraphBuilder.processTransitions
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GarbageCollector.attemptToOrphanWorker
//   k8s.io/kubernetes/pkg/controller/garbagecollector.GarbageCollector.processDeletingDependentsItem
// Why: when the deletion of an owner begins, dependents that are not in the graph
//   are not orphaned or awaited. Types get a monitor with their first object, so
//   their objects may not be in the graph yet.
// Gain: no dependent is deleted instead of orphaned (e2e,
//   TestDeletionRightAfterCreation).
// Breaks: dependents that were created right before the deletion of their owner are
//   deleted instead of orphaned. Tests: TestDeletionsOfOwnersWaitForMonitors,
//   TestDeletionRightAfterCreation.

// DeletionOrder decides how long the event of a deletion is delayed. Its methods are called
// concurrently.
type DeletionOrder interface {
	// Passes reports whether a deletion at the revision needs no delay.
	Passes(revision int64) bool
	// Delay calls pass later. The revision is 0 if the object is in another store.
	Delay(revision int64, pass func())
}

// OrderedHandler passes the events of a type on to the garbage collector. It delays the
// update with which the deletion of an object begins that waits for its dependents.
type OrderedHandler struct {
	order   DeletionOrder
	next    cache.ResourceEventHandler
	foreign bool // the objects are in another store, with other revisions

	mu      sync.Mutex // held while next is called, so that events of an object keep their order
	delayed map[types.UID]*delayedUpdate
}

// NewOrderedHandler returns a handler before next, the garbage collector's. foreign means
// that the objects are in another store.
func NewOrderedHandler(order DeletionOrder, next cache.ResourceEventHandler, foreign bool) *OrderedHandler {
	return &OrderedHandler{order: order, next: next, foreign: foreign, delayed: map[types.UID]*delayedUpdate{}}
}

// delayedUpdate is an update that the garbage collector does not have yet.
type delayedUpdate struct{ previous, current any }

// OnAdd implements [cache.ResourceEventHandler]. For an object that is being deleted, it
// first passes on the object without its deletion.
func (h *OrderedHandler) OnAdd(obj any, isInInitialList bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !waitsForDependents(obj) || h.order.Passes(h.revision(obj)) {
		h.next.OnAdd(obj, isInInitialList)
		return
	}
	before := notDeleted(obj)
	h.next.OnAdd(before, isInInitialList)
	h.delay(before, obj)
}

// OnUpdate implements [cache.ResourceEventHandler].
func (h *OrderedHandler) OnUpdate(previous, current any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delayed := h.delayed[uid(current)]; delayed != nil {
		delayed.current = current
		return
	}
	if !waitsForDependents(current) || waitsForDependents(previous) || h.order.Passes(h.revision(current)) {
		h.next.OnUpdate(previous, current)
		return
	}
	h.delay(previous, current)
}

// OnDelete implements [cache.ResourceEventHandler].
func (h *OrderedHandler) OnDelete(obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	deleted := obj
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		deleted = unknown.Obj
	}
	delete(h.delayed, uid(deleted))
	h.next.OnDelete(obj)
}

// delay delays the update. The caller holds mu.
func (h *OrderedHandler) delay(previous, current any) {
	delayed := &delayedUpdate{previous, current}
	h.delayed[uid(current)] = delayed
	h.order.Delay(h.revision(current), func() { h.pass(delayed) })
}

// pass passes on a delayed update, unless the object was removed meanwhile.
func (h *OrderedHandler) pass(delayed *delayedUpdate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := uid(delayed.current)
	if h.delayed[id] != delayed {
		return
	}
	delete(h.delayed, id)
	h.next.OnUpdate(delayed.previous, delayed.current)
}

// revision returns the revision of the object in the store of this server; 0 if it is in
// another one.
func (h *OrderedHandler) revision(obj any) int64 {
	accessor, err := meta.Accessor(obj)
	if err != nil || h.foreign {
		return 0
	}
	revision, err := strconv.ParseInt(accessor.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// waitsForDependents reports whether the object is being deleted with the propagation
// policy Orphan or Foreground.
func waitsForDependents(obj any) bool {
	accessor, err := meta.Accessor(obj)
	if err != nil || accessor.GetDeletionTimestamp() == nil {
		return false
	}
	finalizers := accessor.GetFinalizers()
	return slices.Contains(finalizers, metav1.FinalizerOrphanDependents) || slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
}

// notDeleted returns a copy without the deletion timestamp.
func notDeleted(obj any) any {
	object, ok := obj.(runtime.Object)
	if !ok {
		return obj
	}
	before := object.DeepCopyObject()
	if accessor, err := meta.Accessor(before); err == nil {
		accessor.SetDeletionTimestamp(nil)
	}
	return before
}

func uid(obj any) types.UID {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return accessor.GetUID()
}
