package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

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
	held   []heldDeletion
	ended  bool // the garbage collector has stopped: events are dropped
	wake   chan struct{}
	listed <-chan struct{} // the change channel of the visible types that are all listed
}

// heldDeletion is a deletion that is held back.
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

// Hold implements [kube.DeletionOrder]: it releases the deletion when the types with
// objects at its revision have been listed.
func (o *deletionOrder) Hold(revision int64, release func()) {
	o.mu.Lock()
	if !o.ended {
		o.held = append(o.held, heldDeletion{revision, release})
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // run is woken already
	}
}

// wait returns when the garbage collector has got all objects of the revision; with
// untilNow, also those of the current revision.
func (o *deletionOrder) wait(ctx context.Context, revision int64, untilNow bool) {
	ctx, cancel := context.WithTimeout(ctx, maxHold)
	defer cancel()
	if untilNow {
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

// Open implements [kube.DeletionOrder].
func (o *deletionOrder) Open(revision int64) bool { return revision > 0 && o.complete(revision) }

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
	return kube.NewOrderedHandler(o, next, o.visible.remote(resource.GroupVersion()))
}
