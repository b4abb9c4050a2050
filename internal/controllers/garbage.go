package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

const (
	gcWorkers = 20 // kube-controller-manager's default
	// syncPeriod is how often garbage collector and quota look for new types
	// by themselves. They are woken when types change (see visibleTypes.follow).
	syncPeriod = 30 * time.Second
)

// garbageCollector is the garbage collector's service account.
const garbageCollector = "generic-garbage-collector"

// buildGarbageCollector is upstream's, with the visible types.
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
				env.visible.follow(ctx, func(ctx context.Context) { gc.Sync(ctx, env.visible, syncPeriod) })
			})
	}, "", nil
}

// concurrently runs the functions and returns when all have.
func concurrently(ctx context.Context, functions ...func(context.Context)) {
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}
