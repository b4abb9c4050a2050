package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	gcWorkers = 20 // kube-controller-manager's default
	// syncPeriod is the interval at which garbage collector and quota read the types.
	// They also read them after each change (see visibleTypes.follow).
	syncPeriod = 30 * time.Second
)

// garbageCollector is the name of the garbage collector's service account.
const garbageCollector = "generic-garbage-collector"

// buildGarbageCollector builds upstream's controller with the visible types.
func buildGarbageCollector(ctx context.Context, env *environment) (func(context.Context), string, error) {
	client, err := env.client(garbageCollector)
	if err != nil {
		return nil, "", err
	}
	objects, err := env.metadata(garbageCollector)
	if err != nil {
		return nil, "", err
	}
	gc, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, env.mapper, env.graph)
	if err != nil {
		return nil, "", err
	}
	return func(ctx context.Context) {
		concurrently(ctx,
			func(ctx context.Context) { gc.Run(ctx, gcWorkers, syncPeriod) },
			func(ctx context.Context) {
				env.visible.follow(ctx, func(ctx context.Context) { gc.Sync(ctx, env.visible.monitored(), syncPeriod) })
			})
	}, "", nil
}

// concurrently calls the functions and returns when all have returned.
func concurrently(ctx context.Context, functions ...func(context.Context)) {
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}
