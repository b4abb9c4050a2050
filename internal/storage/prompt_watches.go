package storage

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
)

// takeTimeout is the time in which the client of a watch must take the next event.
const takeTimeout = 5 * time.Second

// promptWatches is a store without a watch cache that closes the watches of clients that
// take no events, as watch caches do. The events that wait for a client are not shared
// with other clients, and nothing else bounds their number.
type promptWatches struct{ storage.Interface }

// Watch implements [storage.Interface].
func (s promptWatches) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	inner, err := s.Interface.Watch(ctx, key, options)
	if err != nil {
		return nil, err // an API status
	}
	w := &promptWatch{inner: inner, key: key, events: make(chan watch.Event), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.stopped) })
	go w.run()
	return w, nil
}

type promptWatch struct {
	inner   watch.Interface
	key     string // of the watched objects
	events  chan watch.Event
	stopped chan struct{} // closed by stop
	stop    func()
}

// ResultChan implements [watch.Interface].
func (w *promptWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements [watch.Interface].
func (w *promptWatch) Stop() { w.stop() }

// run passes events on until one of the sides ends the watch, or the client takes none.
func (w *promptWatch) run() {
	defer close(w.events)
	defer w.inner.Stop()
	timer := time.NewTimer(takeTimeout)
	defer timer.Stop()
	for {
		var event watch.Event
		var open bool
		select {
		case event, open = <-w.inner.ResultChan():
		case <-w.stopped:
			return
		}
		if !open {
			return
		}
		timer.Reset(takeTimeout)
		select {
		case w.events <- event:
		case <-w.stopped:
			return
		case <-timer.C:
			// The client continues with another watch.
			klog.V(1).InfoS("Closing a watch whose client takes no events", "key", w.key)
			return
		}
	}
}
