package harness

import (
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// Gate passes requests to a server, fails them, or does not answer them.
type Gate struct {
	// URL of the gate.
	URL string

	proxy  *httputil.ReverseProxy
	rate   atomic.Int64 // of failures, in percent
	varied atomic.Bool  // in all ways, and not only with 503
	hangs  atomic.Bool
	ended  chan struct{}
}

// NewGate passes requests to the server at the URL until the test ends.
func NewGate(t testing.TB, server string) *Gate {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gate{ended: make(chan struct{})}
	g.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // requests are signed with it
		},
		ErrorLog: log.New(io.Discard, "", 0), // of the requests that the gate cuts off
	}
	front := httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(func() {
		close(g.ended)
		front.Close()
	})
	g.URL = front.URL
	return g
}

func (g *Gate) serve(w http.ResponseWriter, r *http.Request) {
	if g.hangs.Load() {
		select {
		case <-r.Context().Done():
		case <-g.ended:
		}
		return
	}
	if rand.Int64N(100) >= g.rate.Load() {
		g.proxy.ServeHTTP(w, r)
		return
	}
	ways := []func(http.ResponseWriter, *http.Request){g.refuse}
	if g.varied.Load() {
		ways = append(ways, g.reset, g.cutRequest, g.cutResponse, g.delay)
	}
	ways[rand.IntN(len(ways))](w, r)
}

// executeHalf executes half of the requests and drops the response.
func (g *Gate) executeHalf(r *http.Request) {
	if rand.IntN(2) == 0 {
		g.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// refuse responds with 503.
func (g *Gate) refuse(w http.ResponseWriter, r *http.Request) {
	g.executeHalf(r)
	http.Error(w, "slow down", http.StatusServiceUnavailable)
}

// reset resets the connection without a response.
func (g *Gate) reset(w http.ResponseWriter, r *http.Request) {
	g.executeHalf(r)
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes the connection
	}
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise it is closed in order
	}
	_ = connection.Close()
}

// cutRequest passes half of the request's body on and resets the connection.
func (g *Gate) cutRequest(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > 0 {
		half := io.LimitReader(r.Body, r.ContentLength/2)
		r.Body = io.NopCloser(io.MultiReader(half, lostReader{}))
		g.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	panic(http.ErrAbortHandler)
}

// lostReader fails.
type lostReader struct{}

// Read implements io.Reader.
func (lostReader) Read([]byte) (int, error) { return 0, errors.New("the connection is lost") }

// cutResponse sends half of the body of the response.
func (g *Gate) cutResponse(w http.ResponseWriter, r *http.Request) {
	whole := httptest.NewRecorder()
	g.proxy.ServeHTTP(whole, r)
	for name, values := range whole.Header() {
		w.Header()[name] = values // with the length of the whole
	}
	w.WriteHeader(whole.Code)
	body := whole.Body.Bytes()
	_, _ = w.Write(body[:len(body)/2])        // the connection ends in any case
	_ = http.NewResponseController(w).Flush() // as above
	panic(http.ErrAbortHandler)
}

// delay passes the request on after a while.
func (g *Gate) delay(w http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-g.ended:
	case <-time.After(rand.N(time.Second)):
	}
	g.proxy.ServeHTTP(w, r)
}

// Hang accepts requests from now on without an answer, or answers them again. Those that
// wait stay without one.
func (g *Gate) Hang(hangs bool) { g.hangs.Store(hangs) }

// Fail fails all requests from now on with 503, or none. Half of them are executed.
func (g *Gate) Fail(all bool) {
	g.varied.Store(false)
	g.rate.Store(map[bool]int64{true: 100, false: 0}[all])
}

// FailAtRandom fails this percentage of the requests: with 503, with a connection that is
// reset before or after the server has executed the request, with half of the body of the
// request or of the response, or with a delay.
func (g *Gate) FailAtRandom(percent int64) {
	g.varied.Store(true)
	g.rate.Store(percent)
}
