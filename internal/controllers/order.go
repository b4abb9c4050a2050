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

const (
	// monitorPatience is how long the deletion of an owner waits for the first
	// list of a type. A type that cannot be listed must not hold others.
	monitorPatience = 5 * time.Second
	// monitorPoll is how often the waiting looks at the monitors.
	monitorPoll = 2 * time.Millisecond
)

// deletionOrder shows the garbage collector the dependents before the deletion
// of their owner. An owner whose deletion is to orphan its dependents, or to
// wait for them, is acted upon with the dependents that are in the graph. The
// first object of a type may be written right before that deletion, when its
// type has no monitor yet; unseen, it would be deleted instead of orphaned.
//
// So each such deletion is held back until all types that have objects at its
// revision have been listed. It is safe for concurrent use.
type deletionOrder struct {
	visible *visibleTypes
	synced  func(schema.GroupVersionResource) bool // whether the garbage collector has been given the type

	mu     sync.Mutex
	held   []*heldDeletion
	ended  bool // the garbage collector has ended: events are dropped
	wake   chan struct{}
	listed <-chan struct{} // the channel of the visible types that have all been listed
}

// heldDeletion is an event that waits.
type heldDeletion struct {
	revision int64 // 0 if the object is of another store
	release  func()
}

func newDeletionOrder(visible *visibleTypes, synced func(schema.GroupVersionResource) bool) *deletionOrder {
	return &deletionOrder{visible: visible, synced: synced, wake: make(chan struct{}, 1)}
}

// run releases what is held, until ctx ends. What comes later is dropped: the
// garbage collector ends with the same context.
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
	default: // run is about to look
	}
}

// wait returns when the garbage collector has been given all objects of the
// revision, or of now.
func (o *deletionOrder) wait(ctx context.Context, revision int64, now bool) {
	ctx, cancel := context.WithTimeout(ctx, monitorPatience)
	defer cancel()
	if now {
		if current, err := o.visible.content.Revision(ctx); err == nil {
			revision = max(revision, current)
		}
	}
	// The error says that the store does not answer or that ctx ended: the
	// deletion goes on, as it would without waiting.
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

// open says that nothing needs to be held at the revision.
func (o *deletionOrder) open(revision int64) bool { return revision > 0 && o.complete(revision) }

// complete says whether the garbage collector has been given all objects of the
// types that had any at the revision. A type that could not be listed for long
// does not count.
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
	if o.visible.unlisted(o.visible.now().Add(-monitorPatience), o.synced) {
		return false
	}
	o.mu.Lock()
	o.listed = next
	o.mu.Unlock()
	return true
}

// handler puts the order in front of the garbage collector's handler on a type.
func (o *deletionOrder) handler(resource schema.GroupVersionResource, next cache.ResourceEventHandler) cache.ResourceEventHandler {
	if _, ignored := garbagecollector.DefaultIgnoredResources()[resource.GroupResource()]; ignored {
		return next
	}
	return &orderedHandler{order: o, next: next, foreign: o.visible.remote(resource.GroupVersion()), held: map[types.UID]*heldUpdate{}}
}

// orderedHandler holds back the updates of an object from its deletion on.
type orderedHandler struct {
	order   *deletionOrder
	next    cache.ResourceEventHandler
	foreign bool // the objects are another server's, and so are their revisions

	mu   sync.Mutex // held while next is called, so that events of an object keep their order
	held map[types.UID]*heldUpdate
}

// heldUpdate is an event that is held back.
type heldUpdate struct{ previous, current any }

// OnAdd implements [cache.ResourceEventHandler]. An object that is already being
// deleted is shown as if it were not, and then deleted.
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

// hold keeps the update. Its caller holds mu.
func (h *orderedHandler) hold(previous, current any) {
	held := &heldUpdate{previous, current}
	h.held[uid(current)] = held
	h.order.hold(&heldDeletion{h.revision(current), func() { h.release(held) }})
}

// release passes a held update on, unless the object has gone meanwhile.
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

// revision is where the object stands in this server's store, or 0.
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

// waitsForDependents says whether the deletion of the object has begun and is
// to orphan its dependents or to wait for them.
func waitsForDependents(obj any) bool {
	accessor, err := meta.Accessor(obj)
	if err != nil || accessor.GetDeletionTimestamp() == nil {
		return false
	}
	finalizers := accessor.GetFinalizers()
	return slices.Contains(finalizers, metav1.FinalizerOrphanDependents) || slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
}

// notDeleted is the object without its deletion.
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
