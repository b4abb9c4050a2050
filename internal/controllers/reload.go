package controllers

import (
	"context"
	"sync"
)

// reloading returns a function that runs a controller which reads its files once. When
// the files change, it builds and runs a new one; upstream needs a restart of the
// process for that. If the new one cannot be built, the old one continues. Its event
// handlers stay in the shared informers, which costs little: files change rarely.
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

// awaitNext waits for the next change and returns the new controller; nil when ctx has
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
		env.config.Log.Error("rebuilding a controller failed: it continues with the old certificates and keys", "error", err)
	}
}
