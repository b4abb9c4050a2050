package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// newTestGate counts 5,000 secrets in each namespace, 20,000 in all, 100,000 events, and
// 10 objects of every other kind.
func newTestGate() *listGate {
	return newListGate(func(_ context.Context, resource schema.GroupResource, namespace string) (int64, error) {
		switch {
		case resource.Resource == "broken":
			return 0, errors.New("etcd is away")
		case resource.Resource == "events":
			return 100_000, nil
		case resource.Resource != "secrets":
			return 10, nil
		case namespace == "":
			return 20_000, nil
		default:
			return 5_000, nil
		}
	}, newRequesters(), legacyscheme.Codecs)
}

// ask sends a request through the gate and returns the status.
func ask(t *testing.T, ctx context.Context, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), info)))
	return w
}

func TestListGateEstimates(t *testing.T) {
	g := newTestGate()
	for target, want := range map[string]int64{
		"/api/v1/namespaces/a/secrets":                                                  5_000,
		"/api/v1/secrets":                                                               20_000,
		"/api/v1/secrets?limit=100":                                                     100,
		"/api/v1/secrets?limit=2000":                                                    2_000,
		"/api/v1/namespaces/a/secrets/one":                                              0,
		"/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Done":                0,
		"/api/v1/secrets?limit=100&resourceVersion=0":                                   20_000, // a watch cache ignores the limit
		"/api/v1/namespaces/a/secrets?watch=1":                                          20_000, // it copies the events of all namespaces
		"/api/v1/namespaces/a/secrets?watch=1&resourceVersion=0":                        20_000,
		"/api/v1/namespaces/a/secrets?watch=1&limit=1":                                  20_000,
		"/api/v1/namespaces/a/secrets?watch=1&resourceVersion=7":                        0,
		"/api/v1/namespaces/a/secrets?watch=1&resourceVersion=7&sendInitialEvents=true": 20_000,
		"/api/v1/configmaps":                                                            10,
		"/api/v1/broken":                                                                0,
		"/version":                                                                      0,
	} {
		var got int64
		ask(t, t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			info, _ := request.RequestInfoFrom(r.Context())
			got = g.objects(r, info)
		}), target)
		if got != want {
			t.Errorf("%s is about %d objects, want %d", target, got, want)
		}
	}
}

func TestListGateBoundsLargeListsOnly(t *testing.T) {
	g := newTestGate()
	var now, most atomic.Int64
	full, proceed := make(chan struct{}), make(chan struct{})
	closeFull := sync.OnceFunc(func() { close(full) })
	large := g.limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			if before := most.Load(); n <= before || most.CompareAndSwap(before, n) {
				break
			}
		}
		if n == maxListed/5_000 {
			closeFull()
		}
		<-proceed
	}))
	var clients sync.WaitGroup
	for i := range 3 * maxListed / 5_000 {
		clients.Go(func() {
			if w := ask(t, asUser(t.Context(), "user-"+strconv.Itoa(i%3)), large, "/api/v1/namespaces/a/secrets"); w.Code != http.StatusOK {
				t.Errorf("answered %d", w.Code)
			}
		})
	}
	<-full
	// While all places are taken, other requests are served.
	served := g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	for _, target := range []string{"/api/v1/namespaces", "/api/v1/secrets?limit=100", "/version", "/api/v1/namespaces/a/secrets?watch=1&resourceVersion=7"} {
		if w := ask(t, t.Context(), served, target); w.Code != http.StatusAccepted {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	close(proceed)
	clients.Wait()
	if most.Load() != maxListed/5_000 {
		t.Errorf("%d lists were served at once", most.Load())
	}
}

func TestListGateRefusesWithRetryAfter(t *testing.T) {
	g := newTestGate()
	g.wait = 1500 * time.Millisecond
	release, ok := g.budgets.others.acquire(t.Context(), maxListed)
	if !ok {
		t.Fatal("the gate is not free")
	}
	h := g.limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was served") }))
	w := ask(t, t.Context(), h, "/api/v1/secrets")
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("answered %d with %v: %s", w.Code, w.Header(), w.Body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ask(t, ctx, h, "/api/v1/secrets") // the client has left
	release()
	release()
	if !g.budgets.others.TryAcquire(maxListed) || len(g.budgets.users) > 0 {
		t.Error("places were lost")
	}
}

// TestListGateYields: while lists and watches are written, other goroutines get the
// processor.
func TestListGateYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ran atomic.Bool
	piece := make([]byte, 1000)
	h := newTestGate().limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		go ran.Store(true)
		for i := 0; i < 1000 && !ran.Load(); i++ {
			if _, err := w.Write(piece); err != nil {
				t.Error(err)
			}
		}
	}))
	for _, target := range []string{"/api/v1/secrets", "/api/v1/configmaps", "/api/v1/configmaps?watch=1&resourceVersion=7"} {
		ran.Store(false)
		if ask(t, t.Context(), h, target); !ran.Load() {
			t.Errorf("another goroutine waited until all of %s was written", target)
		}
	}
}

// TestListGateServesAdministrators: their lists do not wait for those of others, and
// are bounded too.
func TestListGateServesAdministrators(t *testing.T) {
	g := newTestGate()
	if _, ok := g.budgets.others.acquire(t.Context(), maxListed); !ok {
		t.Fatal("the gate is not free")
	}
	masters := asUser(t.Context(), administrator)
	served := g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if g.budgets.masters.TryAcquire(maxMastersListed) {
			t.Error("an administrator's list takes no place")
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	for range 2 {
		if w := ask(t, masters, served, "/api/v1/secrets"); w.Code != http.StatusAccepted {
			t.Errorf("answered %d", w.Code)
		}
	}
}

func TestListGateDoesNotBlockWatches(t *testing.T) {
	g := newTestGate()
	signal := flowcontrol.NewInitializationSignal()
	ctx := flowcontrol.WithInitializationSignal(t.Context(), signal)
	h := g.limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if g.budgets.others.TryAcquire(maxListed) {
			t.Error("the watch took no place")
		}
		flowcontrol.WatchInitialized(r.Context())
		if !g.budgets.others.TryAcquire(maxListed) {
			t.Error("the watch keeps its place after its first events")
		}
		g.budgets.others.Release(maxListed)
	}))
	ask(t, ctx, h, "/api/v1/secrets?watch=1")
	signal.Wait() // flow control was notified
	if !g.budgets.others.TryAcquire(maxListed) {
		t.Error("places were lost")
	}
}

func TestListGateBoundsSlowClients(t *testing.T) {
	g := newTestGate()
	g.hold = time.Millisecond
	next := make(chan struct{})
	slow := g.limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-next }))
	var clients sync.WaitGroup
	for range 2 * maxListed / 20_000 {
		clients.Go(func() { ask(t, t.Context(), slow, "/api/v1/secrets") })
	}
	w := ask(t, t.Context(), g.limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })), "/api/v1/secrets")
	if w.Code != http.StatusAccepted {
		t.Errorf("answered %d", w.Code)
	}
	close(next)
	clients.Wait()
}
