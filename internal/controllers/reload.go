package controllers

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"
)

// reloadRetry is the time to the next attempt to build a controller after one has failed.
const reloadRetry = time.Minute

// reloading returns a function that runs a controller which reads files once. When the
// content of the files changes, it builds and runs a new one; upstream needs a restart of
// the process for that. If the new one cannot be built, the old one continues meanwhile.
// Its event handlers stay in the shared informers, which costs little: files change
// rarely. A controller that is stopped at work logs an error for each object that it has
// queued: the old one is stopped between its requests.
func reloading(env *environment, files []string, requests *requestCounter, build func(context.Context) (func(context.Context), error)) (func(context.Context), error) {
	changed := env.config.Files.changed()
	used := contents(files)
	run, err := build(env.runCtx)
	if err != nil {
		return nil, err
	}
	rebuild := func(ctx context.Context) (func(context.Context), error) {
		now := contents(files)
		if slices.Equal(now, used) {
			return nil, nil
		}
		next, err := build(ctx)
		if err == nil {
			used = now
		}
		return next, err
	}
	return func(ctx context.Context) {
		for ctx.Err() == nil {
			runCtx, stop := context.WithCancel(ctx)
			var running sync.WaitGroup
			requests.starts()
			running.Go(func() { run(runCtx) })
			if next := awaitNext(ctx, env, &changed, rebuild); next != nil {
				run = next
				requests.awaitNone(ctx)
			}
			stop()
			running.Wait()
		}
	}, nil
}

// contents returns what the files have now, and an error's text for one that cannot be
// read: building the controller reports it.
func contents(files []string) []string {
	var all []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			data = []byte(err.Error())
		}
		all = append(all, string(data))
	}
	return all
}

// awaitNext waits for the next change and returns the new controller; nil when ctx has
// ended. rebuild returns nil if the change is not one of the controller's files.
func awaitNext(ctx context.Context, env *environment, changed *<-chan struct{}, rebuild func(context.Context) (func(context.Context), error)) func(context.Context) {
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry:
		case <-*changed:
			*changed = env.config.Files.changed()
		}
		next, err := rebuild(ctx)
		if err == nil {
			if next != nil {
				return next
			}
			retry = nil
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		env.config.Log.Error("rebuilding a controller failed, trying again in a minute: it continues with the old certificates and keys", "error", err)
		retry = time.After(reloadRetry)
	}
}
