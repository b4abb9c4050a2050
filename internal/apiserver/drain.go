package apiserver

import (
	"bufio"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// errStopping is the cause with which the context of a cut request ends.
var errStopping = errors.New("the server is stopping")

// bodyTimeout bounds the time in which a client that was not authenticated sends the
// rest of the body of a refused request. Then its connection is closed.
const bodyTimeout = 2 * time.Second

// drain ends the requests in flight when the grace of a stop is over. Upstream waits for
// them until their own timeout, a minute.
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

// outside wraps the handler chain.
func (d *drain) outside(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		cuttable := &response{inner: w, request: r}
		defer func() {
			if cuttable.wasCut() {
				suppressAbort(recover())
			}
		}()
		defer cuttable.finish()
		unlink := context.AfterFunc(d.graceOver, func() {
			if cuttable.cut(d.serializer) {
				cancel(errStopping)
			}
		})
		defer unlink()
		ctx = context.WithValue(ctx, responseKey{}, cuttable)
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(cuttable), r.WithContext(ctx))
	})
}

// inside wraps the innermost handler of the chain. Its requests have passed
// authentication and authorization.
func (d *drain) inside(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cuttable, ok := r.Context().Value(responseKey{}).(*response); ok {
			info, known := request.RequestInfoFrom(r.Context())
			requester, authenticated := request.UserFrom(r.Context())
			cuttable.arrived(known && longRunning(r, info), authenticated && requester.GetName() != user.Anonymous)
		}
		handler.ServeHTTP(w, r)
	})
}

type responseKey struct{}

// response is the [http.ResponseWriter] of a request that can be cut. It is safe for
// concurrent use by the goroutine of the request and the one that cuts it.
type response struct {
	inner   http.ResponseWriter
	request *http.Request

	mu            sync.Mutex
	header        http.Header // until the status is written
	written       bool        // the status was written, or the connection hijacked
	isCut         bool        // writes of the handler are dropped
	finished      bool
	longRunning   bool
	authenticated bool
}

// Unwrap implements [responsewriter.UserProvidedDecorator].
func (r *response) Unwrap() http.ResponseWriter { return r.inner }

// arrived records properties of the request that the handler chain has determined.
func (r *response) arrived(longRunning, authenticated bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longRunning, r.authenticated = longRunning, authenticated
}

// Header implements [http.ResponseWriter]. After the status was written, the header is
// for trailers.
func (r *response) Header() http.Header {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written && !r.isCut {
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
	if r.isCut || r.written {
		return
	}
	r.copyHeader()
	r.written = status >= http.StatusOK || status == http.StatusSwitchingProtocols // not an informational status
	r.inner.WriteHeader(status)
}

func (r *response) copyHeader() {
	maps.Copy(r.inner.Header(), r.header)
	if r.authenticated || r.request.ProtoMajor != 1 || r.request.ContentLength == 0 {
		return
	}
	// net/http reads the rest of a small body before it sends the status, without a
	// time limit. Only the connections of tests do not support deadlines.
	_ = http.NewResponseController(r.inner).SetReadDeadline(time.Now().Add(bodyTimeout))
}

// Write implements [http.ResponseWriter].
func (r *response) Write(p []byte) (int, error) {
	r.mu.Lock()
	if r.isCut {
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
	if r.isCut {
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
	if !ok || r.isCut {
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
	if !r.written && !r.isCut {
		r.copyHeader() // net/http writes the status
	}
}

// wasCut reports whether the request was cut before it had a response.
func (r *response) wasCut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isCut
}

// suppressAbort drops the panic with which upstream's timeout filter aborts the response of
// a handler that has begun one: the client has the complete response of cut.
func suppressAbort(failure any) {
	if failure != nil && failure != http.ErrAbortHandler {
		panic(failure)
	}
}

// cut responds to a request that has no response yet, and reports whether the request
// must end. Long-running requests such as watches end by other means.
func (r *response) cut(serializer runtime.NegotiatedSerializer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished || r.longRunning {
		return false
	}
	if r.written {
		return true // a part of the response was written
	}
	r.isCut = true
	err := apierrors.NewTimeoutError("the server is stopping: the request took longer than its grace and may or may not have been carried out", 0)
	responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{}, r.inner, r.request)
	if flusher, ok := r.inner.(http.Flusher); ok {
		flusher.Flush()
	}
	return true
}
