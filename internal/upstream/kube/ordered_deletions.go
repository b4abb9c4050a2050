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
// Breaks: dependents that were created right before the deletion of their owner
//   are deleted instead of orphaned.

// DeletionOrder decides how long a deletion is held back. Its methods are called
// concurrently.
type DeletionOrder interface {
	// Open reports whether a deletion at the revision need not be held back.
	Open(revision int64) bool
	// Hold calls release later. The revision is 0 if the object is in another store.
	Hold(revision int64, release func())
}

// OrderedHandler passes the events of a type on to the garbage collector, and holds back
// the updates of an object that is being deleted and waits for its dependents.
type OrderedHandler struct {
	order   DeletionOrder
	next    cache.ResourceEventHandler
	foreign bool // the objects are in another store, with other revisions

	mu   sync.Mutex // held while next is called, so that events of an object keep their order
	held map[types.UID]*heldUpdate
}

// NewOrderedHandler returns a handler before next, the garbage collector's. foreign means
// that the objects are in another store.
func NewOrderedHandler(order DeletionOrder, next cache.ResourceEventHandler, foreign bool) *OrderedHandler {
	return &OrderedHandler{order: order, next: next, foreign: foreign, held: map[types.UID]*heldUpdate{}}
}

// heldUpdate is an update that is held back.
type heldUpdate struct{ previous, current any }

// OnAdd implements [cache.ResourceEventHandler]. For an object that is being deleted, it
// first passes on the object without its deletion.
func (h *OrderedHandler) OnAdd(obj any, isInInitialList bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !waitsForDependents(obj) || h.order.Open(h.revision(obj)) {
		h.next.OnAdd(obj, isInInitialList)
		return
	}
	before := notDeleted(obj)
	h.next.OnAdd(before, isInInitialList)
	h.hold(before, obj)
}

// OnUpdate implements [cache.ResourceEventHandler].
func (h *OrderedHandler) OnUpdate(previous, current any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.held[uid(current)]; held != nil {
		held.current = current
		return
	}
	if !waitsForDependents(current) || waitsForDependents(previous) || h.order.Open(h.revision(current)) {
		h.next.OnUpdate(previous, current)
		return
	}
	h.hold(previous, current)
}

// OnDelete implements [cache.ResourceEventHandler].
func (h *OrderedHandler) OnDelete(obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	deleted := obj
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		deleted = unknown.Obj
	}
	delete(h.held, uid(deleted))
	h.next.OnDelete(obj)
}

// hold holds back the update. The caller holds mu.
func (h *OrderedHandler) hold(previous, current any) {
	held := &heldUpdate{previous, current}
	h.held[uid(current)] = held
	h.order.Hold(h.revision(current), func() { h.release(held) })
}

// release passes on a held update, unless the object was removed meanwhile.
func (h *OrderedHandler) release(held *heldUpdate) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := uid(held.current)
	if h.held[id] != held {
		return
	}
	delete(h.held, id)
	h.next.OnUpdate(held.previous, held.current)
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
