package kube

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
//   their objects may not be in the graph yet, and a first list comes in any order.
// Gain: no dependent is deleted instead of orphaned (e2e,
//   TestDeletionRightAfterCreation).
// Breaks: dependents that were created right before the deletion of their owner are
//   deleted instead of orphaned. Tests: TestDeletionsOfOwnersWaitForMonitors,
//   TestDeletionsOfOwnersInTheFirstList, TestDeletionRightAfterCreation.

// OwnerDeletions passes the events of a type on to the garbage collector. When a deletion with the
// policy Orphan or Foreground begins, its event is passed on after Await has returned; the informer
// queues later events meanwhile. It is for one informer, which calls it from one goroutine.
type OwnerDeletions struct {
	cache.ResourceEventHandler
	// Await returns when the dependents of other types are in the graph. The revision is that of the object.
	Await func(revision int64)
	// Listed returns the objects of the type, which come in any order in the first list.
	Listed func() []any

	passed bool // all of Listed
}

// OnAdd implements [cache.ResourceEventHandler].
func (d *OwnerDeletions) OnAdd(obj any, isInInitialList bool) {
	if waitsForDependents(obj) {
		d.Await(revisionOf(obj))
		if isInInitialList && !d.passed { // its dependents may come after it
			d.passed = true
			d.passListed()
		}
	}
	d.ResourceEventHandler.OnAdd(obj, isInInitialList)
}

// passListed passes all objects on, which the graph takes twice. Deletions begin with their own events.
func (d *OwnerDeletions) passListed() {
	for _, obj := range d.Listed() {
		if owner, ok := obj.(runtime.Object); ok && waitsForDependents(obj) {
			obj = owner.DeepCopyObject()
			obj.(metav1.Object).SetDeletionTimestamp(nil)
		}
		d.ResourceEventHandler.OnAdd(obj, true)
	}
}

// OnUpdate implements [cache.ResourceEventHandler].
func (d *OwnerDeletions) OnUpdate(previous, current any) {
	if waitsForDependents(current) && !waitsForDependents(previous) {
		d.Await(revisionOf(current))
	}
	d.ResourceEventHandler.OnUpdate(previous, current)
}

// revisionOf returns 0 for a resource version that is no number.
func revisionOf(obj any) int64 {
	accessor, err := meta.Accessor(obj)
	if err != nil {
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
	return slices.Contains(finalizers, metav1.FinalizerOrphanDependents) ||
		slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
}
