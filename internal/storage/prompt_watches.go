package storage

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/klog/v2"
)

const (
	// takeTimeout is the time in which the client of a watch must take the next event.
	takeTimeout = 5 * time.Second
	// bookmarkInterval is the time between the bookmarks of a watch, as those of upstream's
	// watch caches. Without bookmarks a watch that ends after some minutes without an event
	// cannot be continued: its resource version has been compacted.
	bookmarkInterval = time.Minute
	// beforeDeadline is the time before the timeout of a watch at which it gets a bookmark, as
	// those of watch caches (upstream: cacher.cacheWatcher.nextBookmarkTime).
	beforeDeadline = 2 * time.Second
)

// promptWatches is a store without a watch cache. It does for its watches what watch caches
// do: it sends bookmarks to clients that ask for them, and closes the watches of clients
// that take no events. The events that wait for a client are not shared with other clients,
// and nothing else bounds their number.
type promptWatches struct {
	storage.Interface
	requests *progressRequests
}

// progressRequests are those for etcd's revision in one watch stream. etcd answers to all its
// watches.
type progressRequests struct {
	mu   sync.Mutex
	last time.Time
}

// Watch implements [storage.Interface].
func (s *promptWatches) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	inner, err := s.Interface.Watch(ctx, key, options)
	if err != nil {
		return nil, err // an API status
	}
	w := &promptWatch{
		inner: inner, key: key, bookmarks: options.Predicate.AllowWatchBookmarks || options.ProgressNotify,
		events: make(chan watch.Event), ended: make(chan struct{}),
	}
	ctx, w.stop = context.WithCancel(ctx)
	go w.run(ctx, func(apart time.Duration) { s.requestProgress(ctx, apart) })
	return w, nil
}

// requestProgress makes etcd send its revision to all watches of the stream, as bookmarks.
// Each watch requests it; requests are sent so far apart.
func (s *promptWatches) requestProgress(ctx context.Context, apart time.Duration) {
	if !feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress) {
		return // older versions of etcd send it before the events that it includes
	}
	s.requests.mu.Lock()
	due := time.Since(s.requests.last) >= apart
	if due {
		s.requests.last = time.Now()
	}
	s.requests.mu.Unlock()
	if due {
		_ = s.RequestWatchProgress(ctx) // the watch has ended, or the next interval repeats it
	}
}

type promptWatch struct {
	inner     watch.Interface
	key       string // of the watched objects
	bookmarks bool   // the client accepts them
	events    chan watch.Event
	stop      func()        // ends run
	ended     chan struct{} // closed when run has returned
}

// ResultChan implements [watch.Interface].
func (w *promptWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements [watch.Interface]. It waits for run, which returns at once.
func (w *promptWatch) Stop() {
	w.stop()
	<-w.ended
}

// run passes events on until one of the sides ends the watch, or the client takes none. It
// requests a bookmark in each interval and before the timeout.
func (w *promptWatch) run(ctx context.Context, requestBookmark func(apart time.Duration)) {
	defer close(w.ended)
	defer w.stop()
	defer close(w.events)
	defer w.inner.Stop()
	var due, last <-chan time.Time // never without bookmarks
	if w.bookmarks {
		ticker := time.NewTicker(bookmarkInterval)
		defer ticker.Stop()
		due = ticker.C
		if deadline, ok := ctx.Deadline(); ok {
			last = time.After(time.Until(deadline) - beforeDeadline)
		}
	}
	for {
		select {
		case event, open := <-w.inner.ResultChan():
			if !open || !w.pass(ctx, event) {
				return
			}
		case <-due:
			requestBookmark(bookmarkInterval / 2)
		case <-last:
			requestBookmark(beforeDeadline / 2)
		case <-ctx.Done():
			return
		}
	}
}

// pass gives an event to the client. It returns false if the watch ends. Bookmarks that
// another watch has requested are left out.
func (w *promptWatch) pass(ctx context.Context, event watch.Event) bool {
	if event.Type == watch.Bookmark && !w.bookmarks {
		return true
	}
	timer := time.NewTimer(takeTimeout)
	defer timer.Stop()
	select {
	case w.events <- event:
		return true
	case <-ctx.Done():
	case <-timer.C:
		// The client continues with another watch.
		klog.V(1).InfoS("Closing a watch whose client takes no events", "key", w.key)
	}
	return false
}
