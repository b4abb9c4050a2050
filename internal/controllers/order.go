package controllers

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
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

const (
	// maxHold bounds the time that the deletion of an owner is held back until types
	// are listed: a type that cannot be listed must not block others.
	maxHold = 5 * time.Second
	// monitorPoll is the interval at which wait checks the monitors.
	monitorPoll = 2 * time.Millisecond
)

// deletionOrder passes the dependents to the garbage collector before the deletion of
// their owner. When an owner is deleted with the propagation policy Orphan or
// Foreground, the garbage collector handles the dependents that are in its graph. If
// the first object of a type was created right before that, the type has no monitor
// yet: the object is not in the graph and would be deleted instead of orphaned.
//
// So each such deletion is held back until all types that have objects at its revision
// have been listed. It is safe for concurrent use.
type deletionOrder struct {
	visible *visibleTypes
	synced  func(schema.GroupVersionResource) bool // whether the garbage collector has got all objects of the type

	mu     sync.Mutex
	held   []*heldDeletion
	ended  bool // the garbage collector has stopped: events are dropped
	wake   chan struct{}
	listed <-chan struct{} // the change channel of the visible types that are all listed
}

// heldDeletion is a held event.
type heldDeletion struct {
	revision int64 // 0 if the object is in another store
	release  func()
}

func newDeletionOrder(visible *visibleTypes, synced func(schema.GroupVersionResource) bool) *deletionOrder {
	return &deletionOrder{visible: visible, synced: synced, wake: make(chan struct{}, 1)}
}

// run releases held events until ctx ends. Later events are dropped: the garbage
// collector stops with the same context.
func (o *deletionOrder) run(ctx context.Context) {
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended, o.held = true, nil
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		o.mu.Lock()
		held := o.held
		o.held = nil
		o.mu.Unlock()
		var revision int64
		foreign := false
		for _, h := range held {
			revision, foreign = max(revision, h.revision), foreign || h.revision == 0
		}
		o.wait(ctx, revision, foreign)
		for _, h := range held {
			h.release()
		}
	}
}

// hold keeps a deletion until the types with objects at its revision have been
// listed.
func (o *deletionOrder) hold(h *heldDeletion) {
	o.mu.Lock()
	if !o.ended {
		o.held = append(o.held, h)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // run is woken already
	}
}

// wait returns when the garbage collector has got all objects of the revision and, with
// now, of the current one.
func (o *deletionOrder) wait(ctx context.Context, revision int64, now bool) {
	ctx, cancel := context.WithTimeout(ctx, maxHold)
	defer cancel()
	if now {
		if current, err := o.visible.content.Revision(ctx); err == nil {
			revision = max(revision, current)
		}
	}
	// After an error the deletion is released, as it would be without this order.
	if o.visible.content.Reach(ctx, revision) != nil {
		return
	}
	ticker := time.NewTicker(monitorPoll)
	defer ticker.Stop()
	for !o.complete(revision) {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// open reports whether a deletion at the revision need not be held back.
func (o *deletionOrder) open(revision int64) bool { return revision > 0 && o.complete(revision) }

// complete reports whether the garbage collector has got all objects of the revision. It
// ignores types that could not be listed within maxHold.
func (o *deletionOrder) complete(revision int64) bool {
	if !o.visible.shows(revision) {
		return false
	}
	_, next, _ := o.visible.snapshot()
	o.mu.Lock()
	done := o.listed == next
	o.mu.Unlock()
	if done {
		return true
	}
	if o.visible.unlisted(o.visible.now().Add(-maxHold), o.synced) {
		return false
	}
	o.mu.Lock()
	o.listed = next
	o.mu.Unlock()
	return true
}

// handler returns a handler that holds back deletions and then calls next.
func (o *deletionOrder) handler(resource schema.GroupVersionResource, next cache.ResourceEventHandler) cache.ResourceEventHandler {
	if _, ignored := garbagecollector.DefaultIgnoredResources()[resource.GroupResource()]; ignored {
		return next
	}
	return &orderedHandler{order: o, next: next, foreign: o.visible.remote(resource.GroupVersion()), held: map[types.UID]*heldUpdate{}}
}

// orderedHandler holds back the updates of an object that is being deleted.
type orderedHandler struct {
	order   *deletionOrder
	next    cache.ResourceEventHandler
	foreign bool // the objects are in another store, with other revisions

	mu   sync.Mutex // held while next is called, so that events of an object keep their order
	held map[types.UID]*heldUpdate
}

// heldUpdate is an update that is held back.
type heldUpdate struct{ previous, current any }

// OnAdd implements [cache.ResourceEventHandler]. For an object that is being deleted, it
// first passes on the object without its deletion.
func (h *orderedHandler) OnAdd(obj any, isInInitialList bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !waitsForDependents(obj) || h.order.open(h.revision(obj)) {
		h.next.OnAdd(obj, isInInitialList)
		return
	}
	before := notDeleted(obj)
	h.next.OnAdd(before, isInInitialList)
	h.hold(before, obj)
}

// OnUpdate implements [cache.ResourceEventHandler].
func (h *orderedHandler) OnUpdate(previous, current any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.held[uid(current)]; held != nil {
		held.current = current
		return
	}
	if !waitsForDependents(current) || waitsForDependents(previous) || h.order.open(h.revision(current)) {
		h.next.OnUpdate(previous, current)
		return
	}
	h.hold(previous, current)
}

// OnDelete implements [cache.ResourceEventHandler].
func (h *orderedHandler) OnDelete(obj any) {
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
func (h *orderedHandler) hold(previous, current any) {
	held := &heldUpdate{previous, current}
	h.held[uid(current)] = held
	h.order.hold(&heldDeletion{h.revision(current), func() { h.release(held) }})
}

// release passes on a held update, unless the object was removed meanwhile.
func (h *orderedHandler) release(held *heldUpdate) {
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
func (h *orderedHandler) revision(obj any) int64 {
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
