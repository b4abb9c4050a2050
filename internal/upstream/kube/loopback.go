package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"
)

// Upstream fact: what the API server's handler needs of an in-process request
//
// Mirrors: k8s.io/apiserver/pkg/server.AuthorizeClientBearerToken
//   k8s.io/apiserver/pkg/server.SecureServingInfo.NewLoopbackClientConfig
//   k8s.io/apiserver/pkg/server/options.SecureServingOptionsWithLoopback.ApplyTo
//   k8s.io/apiserver/pkg/endpoints/responsewriter.WrapForHTTP1Or2
// Why: the loopback client of Kubernetes is one of TLS on the server's own port,
//   with an RSA certificate that is made at each start. The handler takes any
//   request, if its token is the one of the loopback configuration and its
//   response writer can flush and implements CloseNotifier.
// Gain: making the certificate takes a quarter of a cold start (bench, start; trial), and
//   informers read without sockets, TLS and HTTP/2.
// Breaks: the server's own clients are not authenticated, and no start succeeds. Tests:
//   TestReadme.

// LoopbackHost is the host of the client of in-process requests. It is never resolved.
const LoopbackHost = "https://apiserver.invalid"

// loopbackAddress is the address of the client of in-process requests; no connection has
// the port 0.
const loopbackAddress = "127.0.0.1:0"

// FromLoopback reports whether the handler got the request from a client in this process.
func FromLoopback(request *http.Request) bool { return request.RemoteAddr == loopbackAddress }

// Loopback passes requests of this process's own clients to the API server's handler.
// They pass the whole handler chain, authentication and audit included. Requests that
// come before the chain is complete wait for it.
type Loopback struct {
	built   chan struct{}
	stopped chan struct{}
	over    context.Context // ends when answers that are not read end
	handler http.Handler    // valid once built is closed
}

// NewLoopback returns a loopback without a handler. When over ends, answers that have begun end.
func NewLoopback(over context.Context) *Loopback {
	return &Loopback{built: make(chan struct{}), stopped: make(chan struct{}), over: over}
}

// ClientConfig is for clients of the server itself. The token is that of the loopback
// configuration (genericapiserver.AuthorizeClientBearerToken gives it system:masters);
// each process makes its own.
func (l *Loopback) ClientConfig() *rest.Config {
	return &rest.Config{
		Host:        LoopbackHost,
		BearerToken: uuid.New().String(),
		// Not Transport: webhooks at the Service default/kubernetes use this
		// configuration with the certificate authorities of their caBundle, which
		// client-go refuses beside a Transport.
		WrapTransport:      func(http.RoundTripper) http.RoundTripper { return l },
		QPS:                -1, // flow control is the server's job
		DisableCompression: true,
		ContentConfig:      rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	}
}

// Serve begins to answer with the handler. It may be called once.
func (l *Loopback) Serve(handler http.Handler) {
	l.handler = handler
	close(l.built)
}

// Stop makes requests fail from now on. The handler of a stopped server answers with
// Retry-After, and client-go would repeat the requests that have no context ten times: all that
// the server is made of stays in memory meanwhile. It may be called once.
func (l *Loopback) Stop() { close(l.stopped) }

var errStopped = errors.New("the API server of this process has stopped")

// await returns nil when the handler can be called.
func (l *Loopback) await(ctx context.Context) error {
	select {
	case <-l.stopped:
		return errStopped
	default:
	}
	select {
	case <-l.built:
		return nil
	case <-l.stopped: // it was never built
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// RoundTrip implements [http.RoundTripper].
func (l *Loopback) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := l.await(request.Context()); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // the contract of RoundTrip; nothing was read
		}
		return nil, err
	}
	// The handler gets the client's cancellation, but none of the values in its
	// context: a handler that calls the API must not pass its own user and audit event
	// to the call.
	ctx, cancel := context.WithCancelCause(context.Background())
	unlink := context.AfterFunc(request.Context(), func() { cancel(context.Cause(request.Context())) })
	body, sink := io.Pipe()
	exchange := &exchange{
		header: http.Header{}, started: make(chan struct{}), sink: sink, ctx: ctx,
		response: &http.Response{
			Proto: "HTTP/2.0", ProtoMajor: 2, Request: request, ContentLength: -1,
			Body: &cancelBody{PipeReader: body, cancel: func() { unlink(); cancel(context.Canceled) }},
		},
	}
	unhold := context.AfterFunc(l.over, func() {
		<-exchange.started
		_ = sink.CloseWithError(errStopped) // always nil: the client may not read the body
	})
	go exchange.run(l.handler, incoming(ctx, request), func() { unlink(); unhold(); cancel(nil) })
	select {
	case <-exchange.started:
	case <-ctx.Done(): // by the client, or as the handler has answered
	}
	// The handler may have answered because the client has gone. As over a socket, that is no answer.
	if err := context.Cause(request.Context()); err != nil {
		_ = body.CloseWithError(err) // always nil
		return nil, err
	}
	return exchange.response, nil
}

// incoming is the request as a server sees it.
func incoming(ctx context.Context, request *http.Request) *http.Request {
	in := request.Clone(ctx)
	in.RequestURI = in.URL.RequestURI()
	in.Host = request.URL.Host
	in.RemoteAddr = loopbackAddress
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return in
}

// exchange is one request in progress: the handler writes to it, the client reads from
// its response.
type exchange struct {
	response *http.Response
	header   http.Header
	sink     *io.PipeWriter
	ctx      context.Context

	once    sync.Once
	started chan struct{} // closed when status and header are final
}

// run calls the handler and ends the response with it. A panic ends the
// response in the middle, as it does on the network.
func (e *exchange) run(handler http.Handler, request *http.Request, done func()) {
	defer done()
	defer func() {
		_ = request.Body.Close() // the client's own; it has been sent
	}()
	defer func() {
		if recover() != nil {
			e.WriteHeader(http.StatusInternalServerError)
			_ = e.sink.CloseWithError(io.ErrUnexpectedEOF) // always nil
			return
		}
		e.WriteHeader(http.StatusOK)
		_ = e.sink.Close() // always nil
	}()
	handler.ServeHTTP(e, request)
}

// Header implements [http.ResponseWriter].
func (e *exchange) Header() http.Header { return e.header }

// WriteHeader implements [http.ResponseWriter]; the first call counts.
func (e *exchange) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return // informational
	}
	e.once.Do(func() {
		e.response.StatusCode, e.response.Status = status, http.StatusText(status)
		e.response.Header = e.header.Clone()
		close(e.started)
	})
}

// Write implements [http.ResponseWriter].
func (e *exchange) Write(p []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	if e.response.Request.Method == http.MethodHead {
		return len(p), nil // its client reads no body
	}
	return e.sink.Write(p)
}

// Flush implements [http.Flusher]; every write is delivered at once.
func (e *exchange) Flush() { e.WriteHeader(http.StatusOK) }

// CloseNotify implements [http.CloseNotifier], which upstream's response
// writers use to recognize HTTP/2 (k8s.io/apiserver/pkg/endpoints/responsewriter).
func (e *exchange) CloseNotify() <-chan bool {
	closed := make(chan bool, 1)
	context.AfterFunc(e.ctx, func() { closed <- true })
	return closed
}

// cancelBody ends the handler when the client has read enough.
type cancelBody struct {
	*io.PipeReader
	cancel func()
}

// Close implements [io.Closer].
func (b *cancelBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}
