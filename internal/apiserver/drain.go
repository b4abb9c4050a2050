package apiserver

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// errStopping is the cause with which the context of an ended request ends.
var errStopping = errors.New("the server is stopping")

// drain ends the requests that are still in flight when the grace of a stop is over: those
// without a response are answered with an error. Upstream waits for them until their own
// timeout, a minute.
type drain struct {
	serializer runtime.NegotiatedSerializer
	graceOver  context.Context // ends when the grace is over
	end        context.CancelFunc
}

func newDrain(serializer runtime.NegotiatedSerializer) *drain {
	d := &drain{serializer: serializer}
	d.graceOver, d.end = context.WithCancel(context.Background())
	return d
}

// endAfterGrace wraps the whole handler chain: it ends the requests that outlive the grace.
func (d *drain) endAfterGrace(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		answer := &response{inner: w, request: r, accept: r.Header["Accept"]}
		defer func() {
			if answer.wasReplaced() {
				suppressAbort(recover())
			}
		}()
		defer answer.finish()
		forget := context.AfterFunc(d.graceOver, func() {
			if answer.end(d.serializer) {
				cancel(errStopping)
			}
		})
		defer forget()
		ctx = context.WithValue(ctx, responseKey{}, answer)
		chain.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), r.WithContext(ctx))
	})
}

// recordRequests wraps the innermost handler of the chain, which knows what its requests
// request. endAfterGrace needs it.
func (d *drain) recordRequests(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := r.Context().Value(responseKey{}).(*response); ok {
			info, known := request.RequestInfoFrom(r.Context())
			answer.record(known && longRunning(r, info))
		}
		handler.ServeHTTP(w, r)
	})
}

type responseKey struct{}

// response is the [http.ResponseWriter] of a request that drain can end. It is safe for
// concurrent use by the goroutine of the request and the one that ends it.
type response struct {
	inner   http.ResponseWriter
	request *http.Request
	accept  []string // its header Accept

	mu          sync.Mutex
	header      http.Header // until the status is written
	written     bool        // the status was written, or the connection hijacked
	replaced    bool        // drain has answered instead of the handler, whose writes are dropped
	finished    bool
	longRunning bool
}

// Unwrap implements [responsewriter.UserProvidedDecorator].
func (r *response) Unwrap() http.ResponseWriter { return r.inner }

// record records a property of the request that the handler chain has determined.
func (r *response) record(longRunning bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longRunning = longRunning
}

// Header implements [http.ResponseWriter]. After the status was written, the header is
// for trailers.
func (r *response) Header() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written && !r.replaced {
		return r.inner.Header()
	}
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writeHeader(status)
}

func (r *response) writeHeader(status int) {
	if r.replaced || r.written {
		return
	}
	maps.Copy(r.inner.Header(), r.header)
	r.written = status >= http.StatusOK || status == http.StatusSwitchingProtocols // not an informational status
	r.inner.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *response) Write(p []byte) (int, error) {
	r.mu.Lock()
	if r.replaced {
		r.mu.Unlock()
		return 0, errStopping
	}
	r.writeHeader(http.StatusOK)
	r.mu.Unlock()
	return r.inner.Write(p) // nothing else writes once the status is written
}

// Flush implements [http.Flusher].
func (r *response) Flush() {
	r.mu.Lock()
	if r.replaced {
		r.mu.Unlock()
		return
	}
	r.writeHeader(http.StatusOK)
	r.mu.Unlock()
	if flusher, ok := r.inner.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Hijack implements [http.Hijacker], where the connection allows it.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	hijacker, ok := r.inner.(http.Hijacker)
	if !ok || r.replaced {
		return nil, nil, http.ErrNotSupported
	}
	r.written = true
	return hijacker.Hijack()
}

// finish is called when the handler has returned: the writer is no longer valid.
func (r *response) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished = true
	if !r.written && !r.replaced {
		maps.Copy(r.inner.Header(), r.header) // net/http writes the status
	}
}

// wasReplaced reports whether drain has answered instead of the handler.
func (r *response) wasReplaced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replaced
}

// suppressAbort drops the panic with which upstream's timeout filter aborts a response that
// its handler has begun: the client already has the complete response of end.
func suppressAbort(failure any) {
	if failure != nil && failure != http.ErrAbortHandler {
		panic(failure)
	}
}

// end answers a request that has no response yet with an error. It reports whether the
// context of the request must end, which is false for one that has finished, and for
// long-running ones such as watches: upstream ends those.
func (r *response) end(serializer runtime.NegotiatedSerializer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished || r.longRunning {
		return false
	}
	if r.written {
		return true // the handler has begun the response
	}
	r.replaced = true
	err := apierrors.NewTimeoutError("the server is stopping: the request took longer than its grace and may or may not have been carried out", 0)
	plain := r.request.WithContext(r.request.Context())
	plain.Header = http.Header{"Accept": r.accept} // authenticators change the request's own
	responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{}, r.inner, plain)
	if flusher, ok := r.inner.(http.Flusher); ok {
		flusher.Flush()
	}
	return true
}
