package controllers

import (
	"context"
	"sync"
	"time"
)

// reloadRetry is the time to the next attempt to build a controller after one has failed.
const reloadRetry = time.Minute

// reloading returns a function that runs a controller which reads its files once. When
// the files change, it builds and runs a new one; upstream needs a restart of the
// process for that. If the new one cannot be built, the old one continues meanwhile. Its
// event handlers stay in the shared informers, which costs little: files change rarely.
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
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry:
		case <-*changed:
			*changed = env.config.Files.changed()
		}
		next, err := build(ctx)
		if err == nil {
			return next
		}
		if ctx.Err() != nil {
			return nil
		}
		env.config.Log.Error("rebuilding a controller failed, trying again in a minute: it continues with the old certificates and keys", "error", err)
		retry = time.After(reloadRetry)
	}
}
