package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// gcWorkers is the number of workers that delete, and of workers that orphan. kube-controller-manager
	// has 20 of each: a deletion with 3,000 dependents takes 2.0 s with 20, and 2.2 s with ten.
	gcWorkers = 10
	// syncPeriod is the interval at which garbage collector and quota read the types.
	// They also read them after each change (see visibleTypes.follow).
	syncPeriod = 30 * time.Second
	// maxDelay bounds the delay of a deletion: a type that cannot be listed must not block
	// others.
	maxDelay = 5 * time.Second
	// monitorPoll is the interval at which await checks the monitors.
	monitorPoll = 2 * time.Millisecond
)

// garbageCollector is the name of the garbage collector's service account.
const garbageCollector = "generic-garbage-collector"

// buildGarbageCollector builds upstream's controller with the visible types.
func buildGarbageCollector(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	objects, err := env.metadata(garbageCollector)
	if err != nil {
		return nil, err
	}
	gc, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, env.mapper, env.graph)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		concurrently(ctx,
			func(ctx context.Context) { gc.Run(ctx, gcWorkers, syncPeriod) },
			func(ctx context.Context) {
				env.visible.follow(ctx, func(ctx context.Context) { gc.Sync(ctx, env.visible.monitored(), syncPeriod) })
			})
	}, nil
}

// concurrently calls the functions and returns when all have returned.
func concurrently(ctx context.Context, functions ...func(context.Context)) {
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}

// deletionOrder has deletions of owners wait until the garbage collector has the owner's
// dependents in its graph, where it looks them up for the propagation policies Orphan and
// Foreground. It does not have a dependent that was created just before, as the first object
// of its type: that type has no monitor yet. The dependent would be deleted instead of
// orphaned. It is safe for concurrent use.
type deletionOrder struct {
	ctx     context.Context // of the controllers
	visible *visibleTypes
	// synced reports whether the garbage collector has got all objects of the type since it became visible.
	synced func(resource schema.GroupVersionResource, since time.Time) bool
	// awaiting has the types whose handlers are in await. await does not wait for these types: the
	// events of their first list may be queued behind it.
	awaiting sync.Map
}

// handler returns a handler that has deletions wait and then calls next.
func (o *deletionOrder) handler(resource schema.GroupVersionResource, informer cache.SharedIndexInformer,
	next cache.ResourceEventHandler) cache.ResourceEventHandler {
	if kube.IsIgnored(resource.GroupResource()) {
		return next
	}
	return &kube.OwnerDeletions{ResourceEventHandler: next, Await: func(revision int64) {
		if o.visible.remote(resource.GroupVersion()) {
			revision = 0 // it is that of another store
		}
		o.await(resource, revision)
	}, Listed: func() []any {
		_ = wait.PollUntilContextTimeout(o.ctx, monitorPoll, maxDelay, true, // as await: it goes on after an error
			func(context.Context) (bool, error) { return informer.HasSynced(), nil })
		return informer.GetStore().List()
	}}
}

// await returns when each type that had objects at the revision has been listed, or after
// maxDelay. It does not wait for the types of owners whose handlers wait themselves, nor for
// types that could not be listed within maxDelay. After an error the deletion goes on, as it
// would without the delay. A revision of 0 stands for the current one.
func (o *deletionOrder) await(owner schema.GroupVersionResource, revision int64) {
	o.awaiting.Store(owner, true)
	defer o.awaiting.Delete(owner)
	ctx, cancel := context.WithTimeout(o.ctx, maxDelay)
	defer cancel()
	content := o.visible.content
	if revision == 0 {
		var err error
		if revision, err = content.Revision(ctx); err != nil {
			return
		}
	}
	if content.Reach(ctx, revision) != nil || o.visible.update(ctx) != nil {
		return
	}
	_ = wait.PollUntilContextCancel(ctx, monitorPoll, true, func(context.Context) (bool, error) {
		return !o.visible.anyNewer(time.Now().Add(-maxDelay), o.isUnlisted), nil
	})
}

// isUnlisted reports whether the garbage collector does not have all objects of a type.
func (o *deletionOrder) isUnlisted(resource schema.GroupVersionResource, since time.Time) bool {
	_, awaits := o.awaiting.Load(resource)
	return !awaits && !o.synced(resource, since)
}
