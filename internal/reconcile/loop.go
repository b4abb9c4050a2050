package reconcile

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Result is when a key is handled again. The zero value means: when it is added again.
type Result struct {
	retry bool
	after time.Duration
}

// Done means that the key needs no more work.
func Done() Result { return Result{} }

// After means that the key is due again after the time.
func After(delay time.Duration) Result { return Result{after: delay} }

// Retry means that the key is due again, after a time that doubles with each
// retry.
func Retry() Result { return Result{retry: true} }

// Config of a loop over keys of a type.
type Config[K comparable] struct {
	// Name of the queue in upstream's workqueue metrics; empty for none.
	Name string
	// Workers is the number of keys that are handled at a time.
	Workers int
	// MinRetry and MaxRetry bound the time before a retry.
	MinRetry, MaxRetry time.Duration
	// Handle does the work for one key. The same key is not handled twice at a
	// time.
	Handle func(ctx context.Context, key K) Result
}

// Loop handles keys. It is safe for concurrent use.
type Loop[K comparable] struct {
	config Config[K]
	queue  workqueue.TypedRateLimitingInterface[K]
}

// New returns a loop that does not run yet; keys may be added.
func New[K comparable](config Config[K]) *Loop[K] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](config.MinRetry, config.MaxRetry)
	return &Loop[K]{config: config, queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[K]{Name: config.Name})}
}

// Add queues the key. It does nothing when the loop has ended.
func (l *Loop[K]) Add(key K) { l.queue.Add(key) }

// Len is the number of queued keys.
func (l *Loop[K]) Len() int { return l.queue.Len() }

// Run handles keys until ctx ends, and returns when no worker runs. Call it once. A worker runs
// for one key: a control plane has many loops, of which few have something to do.
func (l *Loop[K]) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, l.queue.ShutDown)()
	var workers errgroup.Group
	workers.SetLimit(l.config.Workers)
	defer func() { _ = workers.Wait() }() // they return no error
	for {
		key, shutdown := l.queue.Get()
		if shutdown {
			return
		}
		workers.Go(func() error {
			l.handle(ctx, key)
			return nil
		})
	}
}

// Stop ends a loop that is not run.
func (l *Loop[K]) Stop() { l.queue.ShutDown() }

func (l *Loop[K]) handle(ctx context.Context, key K) {
	defer l.queue.Done(key)
	result := l.config.Handle(ctx, key)
	if result.retry {
		l.queue.AddRateLimited(key)
		return
	}
	l.queue.Forget(key)
	if result.after > 0 {
		l.queue.AddAfter(key, result.after)
	}
}

// Pause returns after d, or when ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Deleted returns the object of a call of an informer's handler, also of the call about a
// deletion that the informer has missed, which has the object in its last known state. ok
// is false for an object of another type.
func Deleted[T any](obj any) (object T, ok bool) {
	if unknown, missed := obj.(cache.DeletedFinalStateUnknown); missed {
		obj = unknown.Obj
	}
	object, ok = obj.(T)
	return object, ok
}
