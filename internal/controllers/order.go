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
	// maxDelay bounds the delay of a deletion: a type that cannot be listed must not block
	// others.
	maxDelay = 5 * time.Second
	// monitorPoll is the interval at which wait checks the monitors.
	monitorPoll = 2 * time.Millisecond
)

// deletionOrder delays the deletion of an owner until the garbage collector has the
// owner's dependents in its graph. For the propagation policies Orphan and Foreground, the
// garbage collector looks up the dependents there. It does not have a dependent that was
// created just before, as the first object of its type: that type has no monitor yet. The
// dependent would be deleted instead of orphaned.
//
// The delay ends when the garbage collector has listed each type that had objects at the
// revision of the deletion. A deletionOrder is safe for concurrent use.
type deletionOrder struct {
	visible *visibleTypes
	synced  func(schema.GroupVersionResource) bool // whether the garbage collector has got all objects of the type

	mu      sync.Mutex
	delayed []delayedDeletion
	ended   bool // the garbage collector has stopped: events are dropped
	wake    chan struct{}
	// listed identifies the visible types by their change channel, if all of them were
	// listed.
	listed <-chan struct{}
}

// delayedDeletion is the event of a deletion that the garbage collector does not have yet.
type delayedDeletion struct {
	revision int64  // 0 if an aggregated API server has the object
	pass     func() // gives the event to the garbage collector
}

func newDeletionOrder(visible *visibleTypes, synced func(schema.GroupVersionResource) bool) *deletionOrder {
	return &deletionOrder{visible: visible, synced: synced, wake: make(chan struct{}, 1)}
}

// run passes delayed events to the garbage collector until ctx ends. Later events are
// dropped: the garbage collector stops with the same context.
func (o *deletionOrder) run(ctx context.Context) {
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended, o.delayed = true, nil
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.wake:
		}
		o.mu.Lock()
		delayed := o.delayed
		o.delayed = nil
		o.mu.Unlock()
		var revision int64
		anyRemote := false
		for _, d := range delayed {
			revision, anyRemote = max(revision, d.revision), anyRemote || d.revision == 0
		}
		o.wait(ctx, revision, anyRemote)
		for _, d := range delayed {
			d.pass()
		}
	}
}

// Delay implements [kube.DeletionOrder]: it calls pass when the types with objects at the
// revision have been listed.
func (o *deletionOrder) Delay(revision int64, pass func()) {
	o.mu.Lock()
	if !o.ended {
		o.delayed = append(o.delayed, delayedDeletion{revision, pass})
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default: // run is woken already
	}
}

// wait returns when the garbage collector has all objects of the revision, and of the
// current one if current is set. It returns after maxDelay at the latest.
func (o *deletionOrder) wait(ctx context.Context, revision int64, current bool) {
	ctx, cancel := context.WithTimeout(ctx, maxDelay)
	defer cancel()
	if current {
		if now, err := o.visible.content.Revision(ctx); err == nil {
			revision = max(revision, now)
		}
	}
	// After an error the deletion is passed on, as it would be without the delay.
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

// Passes implements [kube.DeletionOrder].
func (o *deletionOrder) Passes(revision int64) bool { return revision > 0 && o.complete(revision) }

// complete reports whether the garbage collector has all objects of the revision. It
// ignores types that could not be listed within maxDelay.
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
	if o.visible.unlisted(o.visible.now().Add(-maxDelay), o.synced) {
		return false
	}
	o.mu.Lock()
	o.listed = next
	o.mu.Unlock()
	return true
}

// handler returns a handler that delays deletions and then calls next.
func (o *deletionOrder) handler(resource schema.GroupVersionResource,
	next cache.ResourceEventHandler) cache.ResourceEventHandler {
	if _, ignored := garbagecollector.DefaultIgnoredResources()[resource.GroupResource()]; ignored {
		return next
	}
	return kube.NewOrderedHandler(o, next, o.visible.remote(resource.GroupVersion()))
}
