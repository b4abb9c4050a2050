package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// newTestGate counts 5,000 secrets in each namespace, 20,000 in all, 100,000 events, and
// 10 objects of every other kind.
func newTestGate() *limits {
	l := newTestLimits(testLimits)
	l.size = func(_ context.Context, listed schema.GroupResource, namespace string) (storage.Size, error) {
		switch {
		case listed.Resource == "broken":
			return storage.Size{}, errors.New("etcd is away")
		case listed.Resource == "events":
			return storage.Size{Objects: 100_000}, nil
		case listed.Resource == "limitranges": // large ones
			return storage.Size{Objects: 250, Bytes: 250 * 900_000}, nil
		case listed.Resource == "resourcequotas": // too large ones
			return storage.Size{Objects: 1000, Bytes: 1 << 30}, nil
		case listed.Resource != "secrets":
			return storage.Size{Objects: 10}, nil
		case namespace == "":
			return storage.Size{Objects: 20_000}, nil
		default:
			return storage.Size{Objects: 5_000}, nil
		}
	}
	return l
}

// newTestLimits bounds bodies to a mebibyte.
func newTestLimits(configured config.Limits) *limits {
	return &limits{
		Limits: configured, bodySize: 1 << 20, serializer: legacyscheme.Codecs,
		remote: func(*request.RequestInfo) bool { return false }, taken: newBudgets(),
	}
}

var testLimits = config.Limits{
	Entries: 100, PatchEntries: 50, LargestReview: resource.MustParse("64Ki"), WritesAtOnce: resource.MustParse("4Mi"),
	LargestList: resource.MustParse("512Mi"), LargestYAMLList: resource.MustParse("4Mi"), ListsAtOnce: resource.MustParse("128Mi"),
}

// listsAtOnce is how many lists of 5,000 small objects are served at a time.
const listsAtOnce = 128 << 20 / (5_000 * minObject)

// takeAll takes all that lists of users may have.
func takeAll(t *testing.T, g *limits) (release func()) {
	t.Helper()
	all := testLimits.ListsAtOnce.Value()
	release, ok := g.taken.acquire(t.Context(), budget{allBudget, all, all})
	if !ok {
		t.Fatal("the gate is not free")
	}
	return release
}

// ask sends a request through the gate and returns the status.
func ask(t *testing.T, ctx context.Context, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), requestInfo(t, r))))
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
		"/api/v1/limitranges":                                                           250 * 900_000 / minObject,
		"/api/v1/limitranges?limit=1":                                                   900_000 / minObject,
		"/version":                                                                      0,
	} {
		var got int64
		ask(t, t.Context(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			info, _ := request.RequestInfoFrom(r.Context())
			got = cost(r, g.listed(r, info)) / minObject
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
	large := g.lists(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for {
			if before := most.Load(); n <= before || most.CompareAndSwap(before, n) {
				break
			}
		}
		if n == listsAtOnce {
			closeFull()
		}
		<-proceed
	}))
	var clients sync.WaitGroup
	for i := range 3 * listsAtOnce {
		clients.Go(func() {
			if w := ask(t, asUser(t.Context(), "user-"+strconv.Itoa(i%listsAtOnce)), large, "/api/v1/namespaces/a/secrets"); w.Code != http.StatusOK {
				t.Errorf("answered %d", w.Code)
			}
		})
	}
	<-full
	// While all places are taken, other requests are served.
	served := g.lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	for _, target := range []string{"/api/v1/namespaces", "/api/v1/secrets?limit=100", "/version", "/api/v1/namespaces/a/secrets?watch=1&resourceVersion=7"} {
		if w := ask(t, t.Context(), served, target); w.Code != http.StatusAccepted {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	close(proceed)
	clients.Wait()
	if most.Load() != listsAtOnce {
		t.Errorf("%d lists were served at once", most.Load())
	}
}

func TestListGateRefusesWithRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		release := takeAll(t, g)
		h := g.lists(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was served") }))
		w := ask(t, t.Context(), h, "/api/v1/secrets")
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("answered %d with %v: %s", w.Code, w.Header(), w.Body)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ask(t, ctx, h, "/api/v1/secrets") // the client has left
		release()
		release()
		if len(g.taken.used) > 0 {
			t.Error("places were lost")
		}
	})
}

// TestListGateYields: while lists and watches are written, other goroutines get the
// processor.
func TestListGateYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ran atomic.Bool
	piece := make([]byte, 1000)
	h := newTestGate().lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
	takeAll(t, g)
	masters := asUser(t.Context(), administrator)
	served := g.lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if g.taken.used[masterRequesters] == nil {
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
	h := g.lists(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if g.taken.used[allBudget] == nil {
			t.Error("the watch took no place")
		}
		flowcontrol.WatchInitialized(r.Context())
		if g.taken.used[allBudget] != nil {
			t.Error("the watch keeps its place after its first events")
		}
	}))
	ask(t, ctx, h, "/api/v1/secrets?watch=1")
	signal.Wait() // flow control was notified
}

// TestRefusedLists: lists that take too much memory or time are refused with advice.
func TestRefusedLists(t *testing.T) {
	h := newTestGate().lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	for _, test := range []struct {
		target, accept string
		want           int
		advice         string
	}{
		{"/api/v1/limitranges", "application/json", http.StatusAccepted, ""},
		{"/api/v1/limitranges", "application/yaml", http.StatusNotAcceptable, "encoded in YAML"},
		{"/api/v1/limitranges", "application/vnd.kubernetes.protobuf, application/yaml", http.StatusNotAcceptable, "request JSON"},
		{"/api/v1/limitranges?limit=200", "application/yaml", http.StatusNotAcceptable, "encoded in YAML"},
		{"/api/v1/limitranges?limit=2", "application/yaml", http.StatusAccepted, ""},
		{"/api/v1/configmaps", "application/yaml", http.StatusAccepted, ""},
		{"/api/v1/resourcequotas", "application/json", http.StatusRequestEntityTooLarge, "limits.largestList"},
		{"/api/v1/resourcequotas?limit=500", "application/json", http.StatusAccepted, ""},
		{"/api/v1/resourcequotas?watch=1", "application/json", http.StatusAccepted, ""},
	} {
		accepting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Accept", test.accept)
			h.ServeHTTP(w, r)
		})
		if w := ask(t, asUser(t.Context(), "alice"), accepting, test.target); w.Code != test.want || !strings.Contains(w.Body.String(), test.advice) {
			t.Errorf("%s in %s is answered with %d: %s", test.target, test.accept, w.Code, w.Body)
		}
	}
}

// TestLargeListsAreNotIndented: upstream has an indented list in memory.
func TestLargeListsAreNotIndented(t *testing.T) {
	for target, want := range map[string]string{
		"/api/v1/secrets?pretty=true": "false", "/api/v1/secrets": "false", // also for browsers and curl
		"/api/v1/configmaps?pretty=true": "true", "/api/v1/secrets/a?pretty=true": "true",
	} {
		h := newTestGate().lists(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := r.URL.Query().Get("pretty"); got != want {
				t.Errorf("%s is answered with pretty=%s, want %s", target, got, want)
			}
		}))
		ask(t, asUser(t.Context(), "alice"), h, target)
	}
}

// TestSlowReader: a list that waits for its client gives its part back.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGate()
		list := g.lists(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }))
		ctx := asUser(t.Context(), "mallory")
		var reader sync.WaitGroup
		reader.Go(func() { ask(t, ctx, unread(list), "/api/v1/secrets") })
		synctest.Wait()
		began := time.Now()
		if w := ask(t, ctx, list, "/api/v1/secrets"); w.Code != http.StatusOK || time.Since(began) != maxClientWait {
			t.Errorf("answered %d after %v", w.Code, time.Since(began))
		}
		reader.Wait()
	})
}

// unread passes requests of clients that do not read on to h.
func unread(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(slowWriter{w}, r) })
}

// slowWriter is the connection of a client that does not read for a minute.
type slowWriter struct{ http.ResponseWriter }

func (s slowWriter) Write(p []byte) (int, error) {
	time.Sleep(time.Minute)
	return s.ResponseWriter.Write(p)
}
