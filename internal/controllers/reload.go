package controllers

import (
	"context"
	"sync"
)

// reloading runs a controller that reads its files once, and builds and runs it
// again each time that the identity changes; upstream's wants a restart of the
// process for that. A controller whose successor cannot be built goes on. The
// event handlers that it leaves in the shared informers cost little: identities
// change rarely.
func reloading(env *environment, build func(context.Context) (func(context.Context), error)) (func(context.Context), error) {
	changed := env.config.Files.changed()
	run, err := build(env.runCtx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			runCtx, stop := context.WithCancel(ctx)
			var running sync.WaitGroup
			running.Go(func() { run(runCtx) })
			if next := awaitNext(ctx, env, &changed, build); next != nil {
				run = next
			}
			stop()
			running.Wait()
		}
	}, nil
}

// awaitNext returns what is built after the next change, or nil when ctx has
// ended.
func awaitNext(ctx context.Context, env *environment, changed *<-chan struct{}, build func(context.Context) (func(context.Context), error)) func(context.Context) {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-*changed:
		}
		*changed = env.config.Files.changed()
		next, err := build(ctx)
		if err == nil {
			return next
		}
		env.config.Log.Error("a controller goes on with the old certificates and keys", "error", err)
	}
}
