package crds

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	kubestorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// emptyTypes answers lists and watches of types without objects, so that their serving
// machinery is not built. Upstream's handler answers unusual requests. It is safe for
// concurrent use.
type emptyTypes struct {
	front      *front
	population *storage.Population
	// minTimeout is the shortest time until the end of a watch whose request has no
	// timeout.
	minTimeout time.Duration
	// bookmarkInterval is the interval of a watch's bookmarks.
	bookmarkInterval time.Duration
	changes          definitionChanges
}

// serve answers the request if it is a plain one of a type without objects. It returns
// false if upstream's handler must answer.
func (e *emptyTypes) serve(w http.ResponseWriter, r *http.Request, info *request.RequestInfo,
	crd *apiextensionsv1.CustomResourceDefinition) bool {
	p := customresources.NewPlainRequest(r, info, crd)
	if p == nil {
		return false
	}
	since := storage.Current
	version, err := storageVersioner.ParseResourceVersion(p.Options.ResourceVersion)
	if err != nil {
		return false
	}
	fromNow := p.Options.SendInitialEvents != nil && *p.Options.SendInitialEvents || version == 0
	if p.Options.Watch && !fromNow {
		since = int64(version)
	}
	// The request waits at most this long for the counts of objects to reach a revision.
	holding, cancel := context.WithTimeout(r.Context(), customresources.RevisionTimeout)
	defer cancel()
	empty, revision, err := e.population.HoldEmpty(holding, p.Resource(), since)
	switch {
	case errors.Is(err, storage.ErrUnknownHistory) && !e.front.isResident(crd.Name):
		// A watch cache that is made now does not have that history either.
		p.RefuseOld(w, r, revision)
		return true
	case err != nil:
		return false
	case uint64(revision) < version: // the response must not be older
		empty.Release()
		return false
	case p.Options.Watch:
		if since != storage.Current {
			revision = since // the client does not know yet that nothing has come
		}
		e.watch(w, r, p, empty, revision)
		return true
	}
	empty.Release()
	return e.list(w, r, p, revision)
}

// list answers with no objects as of the revision. It returns false if it does not
// answer: upstream's handler answers with the error.
func (e *emptyTypes) list(w http.ResponseWriter, r *http.Request, p *customresources.PlainRequest,
	revision int64) bool {
	if p.Table == nil {
		p.WriteList(w, r, revision)
		return true
	}
	crd, err := e.front.definitions.get(r.Context(), p.CRD.Name) // the columns are in the whole CRD
	return err == nil && p.WriteTable(w, r, revision, crd) == nil
}

var storageVersioner = kubestorage.APIObjectVersioner{}

// definitionChanges ends the watches of types without objects when their CRD changes.
type definitionChanges struct {
	mu    sync.Mutex
	ended map[string]chan struct{} // by the CRD's name
}

// end returns a channel that is closed when the watches of the CRD must end.
func (w *definitionChanges) end(name string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended[name] == nil {
		if w.ended == nil {
			w.ended = map[string]chan struct{}{}
		}
		w.ended[name] = make(chan struct{})
	}
	return w.ended[name]
}

// changed is called after each change of the catalog.
func (w *definitionChanges) changed(before, after *apiextensionsv1.CustomResourceDefinition) {
	if before == nil || after != nil && customresources.SameServing(before, after) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ended := w.ended[before.Name]; ended != nil {
		close(ended)
		delete(w.ended, before.Name)
	}
}

// watch waits for the first object; then upstream's handler continues the watch.
func (e *emptyTypes) watch(w http.ResponseWriter, r *http.Request, p *customresources.PlainRequest,
	empty *storage.EmptyResource, revision int64) {
	release := sync.OnceFunc(empty.Release)
	defer release()
	ended := e.changes.end(p.CRD.Name)
	if current := e.front.catalog.get(p.CRD.Name); current == nil || !customresources.SameServing(p.CRD, current) {
		customresources.NewStream(w, p) // the CRD has changed meanwhile: the client watches again
		return
	}
	held := &emptyWatch{
		stream: customresources.NewStream(w, p), empty: empty, revision: revision, ended: ended,
		deadline: time.Now().Add(p.WatchTimeout(e.minTimeout)), bookmarks: p.Options.AllowWatchBookmarks,
		bookmarkInterval: e.bookmarkInterval,
	}
	flowcontrol.WatchInitialized(r.Context()) // a waiting watch occupies no seat
	var first bool
	metrics.RecordLongRunning(r, p.Info, metrics.APIServerComponent, func() { first = held.run(r.Context()) })
	last := empty.Revision()
	remaining := time.Until(held.deadline)
	if !first || last == 0 || remaining <= 0 {
		p.Count(r)
		return
	}
	endUse, err := e.front.beginUse(r.Context(), p.CRD.Name)
	if err != nil {
		return // the client has gone, or watches again
	}
	defer endUse()
	continued, request := customresources.Continue(w, r, last, remaining, release)
	e.front.handler.ServeHTTP(continued, request)
}

// emptyWatch is a watch of a type without objects.
type emptyWatch struct {
	stream    *customresources.Stream
	empty     *storage.EmptyResource
	revision  int64 // the last one that was sent to the client
	ended     <-chan struct{}
	deadline  time.Time
	bookmarks bool

	bookmarkInterval time.Duration
}

// run returns true when the first object has come, and false when the watch has ended.
func (w *emptyWatch) run(ctx context.Context) bool {
	if initial := w.stream.Request.Options.SendInitialEvents; w.bookmarks && initial != nil && *initial {
		if err := w.stream.Bookmark(w.revision, map[string]string{metav1.InitialEventsAnnotationKey: "true"}); err != nil {
			return false // the client has gone
		}
	}
	var stopping <-chan struct{}
	if signals := request.ServerShutdownSignalFrom(ctx); signals != nil {
		stopping = signals.ShuttingDown()
	}
	timer := time.NewTimer(w.nextBookmark())
	defer timer.Stop()
	for {
		select {
		case <-w.empty.Ended():
			return true
		case <-w.ended:
			return false
		case <-stopping:
			return false
		case <-ctx.Done():
			return false
		case <-timer.C:
			if !time.Now().Before(w.deadline) || w.mark() != nil {
				return false
			}
			timer.Reset(w.nextBookmark())
		}
	}
}

// nextBookmark is the time until the next bookmark or the end.
func (w *emptyWatch) nextBookmark() time.Duration {
	remaining := time.Until(w.deadline)
	switch {
	case !w.bookmarks || remaining <= customresources.LastBookmark:
		return remaining
	default:
		return min(w.bookmarkInterval, remaining-customresources.LastBookmark)
	}
}

// mark sends the current revision to the client if it has changed.
func (w *emptyWatch) mark() error {
	revision := w.empty.Revision()
	if !w.bookmarks || revision <= w.revision {
		return nil
	}
	w.revision = revision
	return w.stream.Bookmark(revision, nil)
}
