package harness

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// Gate passes requests to a server, fails them, or does not answer them.
type Gate struct {
	// URL of the gate.
	URL string

	rate  atomic.Int64 // of failures, in percent
	hangs atomic.Bool
	ended chan struct{}
}

// NewGate passes requests to the server at the URL until the test ends.
func NewGate(t testing.TB, server string) *Gate {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gate{ended: make(chan struct{})}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // requests are signed with it
	}}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.hangs.Load() {
			select {
			case <-r.Context().Done():
			case <-g.ended:
			}
			return
		}
		if rand.Int64N(100) >= g.rate.Load() {
			proxy.ServeHTTP(w, r)
			return
		}
		if rand.IntN(2) == 0 {
			proxy.ServeHTTP(httptest.NewRecorder(), r) // executed; the answer is lost
		}
		http.Error(w, "slow down", http.StatusServiceUnavailable)
	}))
	t.Cleanup(func() {
		close(g.ended)
		front.Close()
	})
	g.URL = front.URL
	return g
}

// Hang accepts requests from now on without an answer, or answers them again. Those that
// wait stay without one.
func (g *Gate) Hang(hangs bool) { g.hangs.Store(hangs) }

// Fail fails all requests from now on, or none.
func (g *Gate) Fail(all bool) {
	g.FailAtRandom(map[bool]int64{true: 100, false: 0}[all])
}

// FailAtRandom fails this percentage of the requests, half of them after the server has
// executed them.
func (g *Gate) FailAtRandom(percent int64) { g.rate.Store(percent) }
