package planes

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/responsewriter"
)

// watcher is the watch of one client. While its control plane is awake, the watch is a request
// to it, a leg. Between two legs it is parked: the connection to the client stays open, and
// nothing of it is in the control plane.
type watcher struct {
	plane    *plane
	request  *http.Request // to the control plane
	client   http.ResponseWriter
	ctx      context.Context
	cancel   context.CancelFunc
	deadline time.Time         // zero without one
	next     chan http.Handler // of the next leg

	// Of the checks before a sleep, one at a time.
	behind time.Time // of the first one in a row that found that events are missing, and as many sent
	seen   int64     // events sent as of then

	// Guarded by plane.mu.
	active bool          // it has a leg, or one is in next
	opened chan struct{} // closed when the leg has its header, or has ended

	mu       sync.Mutex // held while something is sent
	left     bool       // the client's request has been answered
	media    string     // the Content-Type, once the header is sent
	format   format
	initial  bool         // initial events follow, in an order that is not that of their revisions
	last     []byte       // the event that was sent last
	sent     atomic.Int64 // events; changed with mu held
	upToDate string       // the revision up to which the client has all events
}

// maxMedia bounds the requests whose Content-Type is remembered.
const maxMedia = 1024

// mediaKey identifies watches whose answers have the same Content-Type.
func mediaKey(r *http.Request) string { return r.URL.Path + " " + r.Header.Get("Accept") }

// serveWatch serves a watch until the client or its timeout ends it. It returns an error if
// nothing was sent.
func (p *plane) serveWatch(w http.ResponseWriter, r *http.Request, mayWake func() bool) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x := &watcher{plane: p, request: r.WithContext(ctx), client: w, ctx: ctx, cancel: cancel,
		next: make(chan http.Handler, 1), opened: make(chan struct{}),
		initial: !slices.Contains([]string{"", "false", "0"}, r.URL.Query().Get("sendInitialEvents"))}
	if seconds, err := strconv.ParseInt(r.URL.Query().Get("timeoutSeconds"), 10, 32); err == nil && seconds > 0 {
		x.deadline = time.Now().Add(time.Duration(seconds) * time.Second)
	}
	defer p.leave(x)
	if p.parkNew(x) {
		return x.legs(nil)
	}
	handler, done, err := p.use(ctx, mayWake)
	if err != nil {
		return err
	}
	done = sync.OnceFunc(done)
	defer done() // the handler may panic
	x.beginEmpty(handler)
	p.mu.Lock()
	p.addWatch(x)
	x.active = true
	p.serving.Add(1)
	p.mu.Unlock()
	done()
	return x.legs(handler)
}

// beginEmpty gives a watch without a resourceVersion, of what has no objects, that of the empty
// list. It is the same watch, and the client's position is known before the first event.
func (x *watcher) beginEmpty(handler http.Handler) {
	query := x.request.URL.Query()
	if query.Get("resourceVersion") != "" || query.Has("sendInitialEvents") {
		return
	}
	list := x.continued(x.ctx, "", url.Values{"limit": {"1"}})
	settings := list.URL.Query()
	settings.Del("watch")
	settings.Del("timeoutSeconds")
	list.URL.RawQuery = settings.Encode()
	list.RequestURI = list.URL.RequestURI()
	list.Header.Set("Accept", runtime.ContentTypeJSON)
	answer := responsewriter.NewInMemoryResponseWriter()
	handler.ServeHTTP(answer, list)
	var objects metav1.PartialObjectMetadataList
	if answer.RespCode() == http.StatusOK && json.Unmarshal(answer.Data(), &objects) == nil &&
		strings.HasSuffix(objects.Kind, "List") && len(objects.Items) == 0 { // else it is one object, or there are some
		x.request = x.continued(x.ctx, objects.ResourceVersion, nil)
	}
}

// legs serves the legs of a watch, the first one with the handler; nil if it is parked.
func (x *watcher) legs(handler http.Handler) error {
	for first := handler != nil; ; first = false {
		if handler != nil && !x.serveLeg(handler, first) {
			return nil
		}
		var timeout <-chan time.Time
		if !x.deadline.IsZero() {
			timeout = time.After(time.Until(x.deadline))
		}
		select {
		case handler = <-x.next:
		case <-timeout:
			return nil
		case <-x.ctx.Done():
			return nil
		}
	}
}

// serveLeg has the control plane serve the watch, from where the client is. It reports whether the
// watch waits for the next leg. The handler may panic with [http.ErrAbortHandler].
func (x *watcher) serveLeg(handler http.Handler, first bool) (parked bool) {
	l := &leg{watcher: x, header: http.Header{}, first: first}
	defer func() {
		l.open()
		parked = x.plane.park(x)
	}()
	request := x.request.Clone(x.ctx) // upstream removes the credentials from its headers
	if !first {
		settings := url.Values{}
		if !x.deadline.IsZero() {
			settings.Set("timeoutSeconds", strconv.Itoa(max(int(time.Until(x.deadline).Seconds()), 1)))
		}
		request = x.continued(x.ctx, x.upToDate, settings)
	}
	handler.ServeHTTP(l, request)
	return
}

// continued returns the request of the client for what comes after the resourceVersion, with
// other settings.
func (x *watcher) continued(ctx context.Context, version string, settings url.Values) *http.Request {
	query := x.request.URL.Query()
	query.Del("sendInitialEvents")
	query.Del("resourceVersionMatch")
	query.Set("resourceVersion", version)
	maps.Copy(query, settings)
	r := x.request.Clone(ctx)
	r.URL.RawQuery = query.Encode()
	r.RequestURI = r.URL.RequestURI()
	return r
}

// leg is the response of a control plane to a watch. Only complete events reach the client.
type leg struct {
	*watcher
	header  http.Header
	first   bool
	code    int
	pending []byte
	once    sync.Once
}

// Header implements [http.ResponseWriter].
func (l *leg) Header() http.Header { return l.header }

// WriteHeader implements [http.ResponseWriter].
func (l *leg) WriteHeader(code int) {
	if l.code != 0 {
		return
	}
	l.code = code
	if !l.first {
		if code != http.StatusOK || l.header.Get("Content-Type") != l.media {
			l.cancel() // the stream ends, and the client asks again
		}
		l.open()
		return
	}
	for name, values := range l.header {
		l.client.Header()[name] = values
	}
	l.client.WriteHeader(code)
	l.mu.Lock()
	if code == http.StatusOK { // from now on, probes may send a bookmark
		l.media = l.header.Get("Content-Type")
		l.format = formatOf(l.media)
	}
	l.mu.Unlock()
	l.open()
}

// Write implements [http.ResponseWriter].
func (l *leg) Write(data []byte) (int, error) {
	l.WriteHeader(http.StatusOK)
	switch {
	case l.code != http.StatusOK && l.first, l.format == nil:
		return l.client.Write(data)
	case l.ctx.Err() != nil:
		return 0, context.Cause(l.ctx)
	case l.plane.is(stopping): // the client has all events, or asks again
		return len(data), nil
	}
	l.pending = append(l.pending, data...)
	for {
		event, rest := l.format.next(l.pending)
		if event == nil {
			return len(data), nil
		}
		if err := l.send(event); err != nil {
			return 0, err
		}
		l.pending = append(l.pending[:0], rest...)
	}
}

// Flush implements [http.Flusher].
func (l *leg) Flush() {
	l.WriteHeader(http.StatusOK)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
}

// CloseNotify implements http.CloseNotifier, which upstream's wrappers of responses ask for.
func (l *leg) CloseNotify() <-chan bool { return make(chan bool) }

// open says that the control plane's answer has begun.
func (l *leg) open() {
	l.once.Do(func() {
		l.plane.mu.Lock()
		opened := l.opened
		l.plane.mu.Unlock()
		close(opened)
	})
}

// send sends an event to the client.
func (x *watcher) send(event []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sendLocked(event)
}

func (x *watcher) sendLocked(event []byte) error {
	if _, err := x.client.Write(event); err != nil {
		return err
	}
	x.last = append(x.last[:0], event...)
	x.initial = x.initial && !bytes.Contains(event, []byte(metav1.InitialEventsAnnotationKey))
	x.sent.Add(1)
	return nil
}

// flush is called with mu held.
func (x *watcher) flush() {
	if flusher, ok := x.client.(http.Flusher); ok {
		flusher.Flush()
	}
}

// position returns the resourceVersion of what the client has last, and the number of events.
// The version is empty if it is unknown. It returns false while something is sent, or initial events are.
func (x *watcher) position() (version string, sent int64, ok bool) {
	if !x.mu.TryLock() {
		return "", 0, false
	}
	defer x.mu.Unlock()
	switch {
	case x.format == nil || x.left:
		return "", 0, true
	case x.initial:
		return "", 0, false
	}
	version = strings.TrimPrefix(x.request.URL.Query().Get("resourceVersion"), "0")
	if sent = x.sent.Load(); sent > 0 {
		kind, read, err := x.format.read(x.last)
		if err != nil || kind == watch.Error {
			return "", sent, true
		}
		version = read
	}
	if x.upToDate != "" && (version == "" || less(version, x.upToDate)) { // it takes no bookmarks
		version = x.upToDate
	}
	return version, sent, true
}

// confirm notes that the client has all events up to the revision, unless an event was sent
// after the first sent ones. It sends the client the bookmark, which may be nil, if the client
// takes bookmarks.
func (x *watcher) confirm(revision string, sent int64, bookmark []byte) bool {
	if !x.mu.TryLock() {
		return false
	}
	defer x.mu.Unlock()
	if x.left || x.sent.Load() != sent {
		return x.left
	}
	if bookmark != nil && x.request.URL.Query().Get("allowWatchBookmarks") == "true" {
		control := http.NewResponseController(x.client)
		if err := control.SetWriteDeadline(time.Now().Add(probeTimeout)); err != nil {
			return false // without a bound, a client that does not read would keep it awake
		}
		if x.sendLocked(bookmark) != nil {
			return false
		}
		x.flush()
		if control.SetWriteDeadline(time.Time{}) != nil {
			return false
		}
	}
	x.upToDate = revision
	return true
}
