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
	over       context.Context // ends when the grace is over
	end        context.CancelFunc
}

func newDrain(serializer runtime.NegotiatedSerializer) *drain {
	d := &drain{serializer: serializer}
	d.over, d.end = context.WithCancel(context.Background())
	return d
}

// outside wraps the handler chain.
func (d *drain) outside(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		answer := &answer{inner: w, request: r}
		defer func() {
			if answer.wasCut() {
				keepAnswer(recover())
			}
		}()
		defer answer.finish()
		unlink := context.AfterFunc(d.over, func() {
			if answer.cut(d.serializer) {
				cancel(errStopping)
			}
		})
		defer unlink()
		ctx = context.WithValue(ctx, answerKey{}, answer)
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(answer), r.WithContext(ctx))
	})
}

// inside wraps the innermost handler of the chain. Its requests have passed
// authentication and authorization.
func (d *drain) inside(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := r.Context().Value(answerKey{}).(*answer); ok {
			info, known := request.RequestInfoFrom(r.Context())
			requester, authenticated := request.UserFrom(r.Context())
			answer.arrived(known && longRunning(r, info), authenticated && requester.GetName() != user.Anonymous)
		}
		handler.ServeHTTP(w, r)
	})
}

type answerKey struct{}

// answer is the [http.ResponseWriter] of a request that can be cut. It is safe for
// concurrent use by the goroutine of the request and the one that cuts it.
type answer struct {
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
func (a *answer) Unwrap() http.ResponseWriter { return a.inner }

// arrived records properties of the request that the handler chain has determined.
func (a *answer) arrived(longRunning, authenticated bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.longRunning, a.authenticated = longRunning, authenticated
}

// Header implements [http.ResponseWriter]. After the status was written, the header is
// for trailers.
func (a *answer) Header() http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.written && !a.isCut {
		return a.inner.Header()
	}
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writeHeader(status)
}

func (a *answer) writeHeader(status int) {
	if a.isCut || a.written {
		return
	}
	a.copyHeader()
	a.written = status >= http.StatusOK || status == http.StatusSwitchingProtocols // not an informational status
	a.inner.WriteHeader(status)
}

func (a *answer) copyHeader() {
	maps.Copy(a.inner.Header(), a.header)
	if a.authenticated || a.request.ProtoMajor != 1 || a.request.ContentLength == 0 {
		return
	}
	// net/http reads the rest of a small body before it sends the status, without a
	// time limit. Only the connections of tests do not support deadlines.
	_ = http.NewResponseController(a.inner).SetReadDeadline(time.Now().Add(bodyTimeout))
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	if a.isCut {
		a.mu.Unlock()
		return 0, errStopping
	}
	a.writeHeader(http.StatusOK)
	a.mu.Unlock()
	return a.inner.Write(p) // nothing else writes once the status is written
}

// Flush implements [http.Flusher].
func (a *answer) Flush() {
	a.mu.Lock()
	if a.isCut {
		a.mu.Unlock()
		return
	}
	a.writeHeader(http.StatusOK)
	a.mu.Unlock()
	if flusher, ok := a.inner.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Hijack implements [http.Hijacker], where the connection allows it.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	hijacker, ok := a.inner.(http.Hijacker)
	if !ok || a.isCut {
		return nil, nil, http.ErrNotSupported
	}
	a.written = true
	return hijacker.Hijack()
}

// finish is called when the handler has returned: the writer is no longer valid.
func (a *answer) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.finished = true
	if !a.written && !a.isCut {
		a.copyHeader() // net/http writes the status
	}
}

// wasCut reports whether the request was cut before it had a response.
func (a *answer) wasCut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.isCut
}

// keepAnswer drops the panic with which upstream's timeout filter aborts a response that
// its handler has begun: the client has the complete response of cut.
func keepAnswer(failure any) {
	if failure != nil && failure != http.ErrAbortHandler {
		panic(failure)
	}
}

// cut responds to a request that has no response yet, and reports whether the request
// must end. Long-running requests such as watches end by other means.
func (a *answer) cut(serializer runtime.NegotiatedSerializer) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.finished || a.longRunning {
		return false
	}
	if a.written {
		return true // a part of the response was written
	}
	a.isCut = true
	err := apierrors.NewTimeoutError("the server is stopping: the request took longer than its grace and may or may not have been carried out", 0)
	responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{}, a.inner, a.request)
	if flusher, ok := a.inner.(http.Flusher); ok {
		flusher.Flush()
	}
	return true
}
