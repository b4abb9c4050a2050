package crds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	kubestorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

const (
	// holdTimeout bounds how long a request waits for the counts of objects to
	// reach a revision.
	holdTimeout = 3 * time.Second
	// bookmarkInterval is the interval of a watch's bookmarks, as in upstream's watch
	// cache.
	bookmarkInterval = time.Minute
	// lastBookmark is the time between the last bookmark and the end of a watch.
	lastBookmark = 2 * time.Second
)

var storageVersioner = kubestorage.APIObjectVersioner{}

func holdContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, holdTimeout)
}

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }

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
	if before == nil || after != nil && sameServing(before, after) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if ended := w.ended[before.Name]; ended != nil {
		close(ended)
		delete(w.ended, before.Name)
	}
}

// sameServing reports whether upstream's handler would keep what it has built for a
// CRD. The beginning of a deletion increases the generation without a change of the
// specification.
func sameServing(before, after *apiextensionsv1.CustomResourceDefinition) bool {
	generation := after.Generation
	if before.DeletionTimestamp == nil && after.DeletionTimestamp != nil {
		generation--
	}
	return before.UID == after.UID && before.Generation == generation &&
		equality.Semantic.DeepEqual(before.Status.AcceptedNames, after.Status.AcceptedNames)
}

// stream is the response to a watch.
type stream struct {
	w       http.ResponseWriter
	flusher http.Flusher
	request *plainRequest
}

// newStream sends the header of the response.
func newStream(w http.ResponseWriter, p *plainRequest) *stream {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.Header().Set("Transfer-Encoding", "chunked")
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, request: p}
	s.flusher, _ = w.(http.Flusher)
	s.flush()
	return s
}

func (s *stream) flush() {
	if s.flusher != nil {
		s.flusher.Flush()
	}
}

// send sends an event.
func (s *stream) send(kind watch.EventType, object any) error {
	text, err := json.Marshal(struct {
		Type   watch.EventType `json:"type"`
		Object any             `json:"object"`
	}{kind, object})
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if _, err := s.w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	s.flush()
	return nil
}

// bookmark sends the revision to the client; annotations may be nil.
func (s *stream) bookmark(revision int64, annotations map[string]string) error {
	object := metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: s.request.version().String(), Kind: s.request.crd.Status.AcceptedNames.Kind},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: formatRevision(revision), Annotations: annotations},
	}
	return s.send(watch.Bookmark, object)
}

// refuseOld answers a watch from a revision whose history is not known, with the same
// event as upstream's watch cache. Clients list again.
func (e *emptyTypes) refuseOld(w http.ResponseWriter, r *http.Request, p *plainRequest, oldest int64) {
	flowcontrol.WatchInitialized(r.Context())
	expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s (%d)", p.options.ResourceVersion, oldest))
	status := expired.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	// The error is that of a connection that the client has closed.
	_ = newStream(w, p).send(watch.Error, status)
	p.record(r)
}

// record counts an answered watch.
func (p *plainRequest) record(r *http.Request) {
	metrics.MonitorRequest(r, "WATCH", p.info.APIGroup, p.info.APIVersion, p.info.Resource, "", metrics.CleanScope(p.info),
		metrics.APIServerComponent, false, "", http.StatusOK, 0, time.Since(p.received))
}

// watch waits for the first object; then upstream's handler continues the watch.
func (e *emptyTypes) watch(w http.ResponseWriter, r *http.Request, p *plainRequest, empty *storage.EmptyResource, revision int64) {
	release := sync.OnceFunc(empty.Release)
	defer release()
	ended := e.changes.end(p.crd.Name)
	if current := e.front.catalog.get(p.crd.Name); current == nil || !sameServing(p.crd, current) {
		newStream(w, p) // the CRD has changed meanwhile: the client watches again
		return
	}
	timeout := time.Duration(float64(e.minTimeout) * (rand.Float64() + 1))
	if seconds := p.options.TimeoutSeconds; seconds != nil && *seconds > 0 {
		timeout = time.Duration(*seconds) * time.Second
	}
	held := &emptyWatch{
		stream: newStream(w, p), empty: empty, revision: revision, ended: ended,
		deadline: time.Now().Add(timeout), bookmarks: p.options.AllowWatchBookmarks,
	}
	flowcontrol.WatchInitialized(r.Context()) // a waiting watch occupies no seat
	var first bool
	metrics.RecordLongRunning(r, p.info, metrics.APIServerComponent, func() { first = held.run(r.Context()) })
	last := empty.Revision()
	remaining := time.Until(held.deadline)
	if !first || last == 0 || remaining <= 0 {
		p.record(r)
		return
	}
	leave, err := e.front.enter(r.Context(), p.crd.Name)
	if err != nil {
		return // the client has gone
	}
	defer leave()
	e.front.handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(&continuedResponse{inner: w, begun: release}), continuedFrom(r, last, remaining))
}

// continuedFrom is the request for the rest of a watch.
func continuedFrom(r *http.Request, revision int64, remaining time.Duration) *http.Request {
	query := r.URL.Query()
	query.Del("sendInitialEvents")
	query.Del("resourceVersionMatch")
	query.Set("resourceVersion", formatRevision(revision))
	query.Set("timeoutSeconds", strconv.Itoa(1+int(remaining.Seconds())))
	rest := r.WithContext(r.Context())
	rest.URL = &url.URL{}
	*rest.URL = *r.URL
	rest.URL.RawQuery = query.Encode()
	return rest
}

// emptyWatch is a watch of a type without objects.
type emptyWatch struct {
	stream    *stream
	empty     *storage.EmptyResource
	revision  int64 // the last one that was sent to the client
	ended     <-chan struct{}
	deadline  time.Time
	bookmarks bool
}

// run returns true when the first object has come, and false when the watch has ended.
func (w *emptyWatch) run(ctx context.Context) bool {
	if initial := w.stream.request.options.SendInitialEvents; w.bookmarks && initial != nil && *initial {
		if err := w.stream.bookmark(w.revision, map[string]string{metav1.InitialEventsAnnotationKey: "true"}); err != nil {
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
	case !w.bookmarks || remaining <= lastBookmark:
		return remaining
	default:
		return min(bookmarkInterval, remaining-lastBookmark)
	}
}

// mark sends the current revision to the client if it has changed.
func (w *emptyWatch) mark() error {
	revision := w.empty.Revision()
	if !w.bookmarks || revision <= w.revision {
		return nil
	}
	w.revision = revision
	return w.stream.bookmark(revision, nil)
}

// errNotContinued ends a watch whose rest would not continue what was sent to the
// client.
var errNotContinued = errors.New("the watch is not continued")

// continuedResponse is the [http.ResponseWriter] for the rest of a watch whose header
// has been sent. If upstream's handler refuses the rest, it writes nothing: the watch
// ends, and the client begins another one.
type continuedResponse struct {
	inner   http.ResponseWriter
	begun   func() // called when upstream's handler watches
	header  http.Header
	refused bool
	decided bool
}

// Unwrap implements [responsewriter.UserProvidedDecorator].
func (c *continuedResponse) Unwrap() http.ResponseWriter { return c.inner }

// Header implements [http.ResponseWriter]. It is not sent.
func (c *continuedResponse) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}

// WriteHeader implements [http.ResponseWriter].
func (c *continuedResponse) WriteHeader(code int) {
	if c.decided {
		return
	}
	c.decided = true
	c.refused = code != http.StatusOK || c.header.Get("Content-Type") != runtime.ContentTypeJSON
	c.begun()
}

// Write implements [http.ResponseWriter].
func (c *continuedResponse) Write(text []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if c.refused {
		return 0, errNotContinued
	}
	return c.inner.Write(text)
}
