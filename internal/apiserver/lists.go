package apiserver

import (
	"context"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/errors"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// largeList is the number of objects from which on lists are limited.
	largeList = 500
	// maxListWait bounds the time that a large list waits before it is refused.
	maxListWait = 15 * time.Second
	// maxListHold bounds the time that a list counts against the budgets: a client that
	// reads slowly must not block others.
	maxListHold = 15 * time.Second
	// yieldAfter is the number of bytes that a list or a watch writes before other
	// goroutines run. One event of a watch is sent without a delay.
	yieldAfter = 8 << 10
	// countAge is the time for which a counted number of objects is used.
	countAge = time.Second
	// maxCounts bounds the number of entries in listGate.counts.
	maxCounts = 1000
)

// listGate bounds the lists, and the watches that begin with a list, that are
// served at the same time, by the number of their objects. Upstream's flow
// control bounds requests, and system:masters are exempt from it: 500 lists of
// 5,000 objects take 1.7 GB and delay all other requests by seconds.
type listGate struct {
	count      func(ctx context.Context, resource schema.GroupResource, namespace string) (int64, error)
	serializer k8sruntime.NegotiatedSerializer
	budgets    *listBudgets
	wait, hold time.Duration

	mu       sync.Mutex
	counts   map[countKey]counted
	counting singleflight.Group
}

type countKey struct {
	resource  schema.GroupResource
	namespace string
}

type counted struct {
	objects int64
	at      time.Time
}

// newListGate returns a gate. count counts the stored objects of a resource, in one
// namespace or, if it is empty, in all.
func newListGate(count func(context.Context, schema.GroupResource, string) (int64, error), requesters requesters, serializer k8sruntime.NegotiatedSerializer) *listGate {
	return &listGate{
		count: count, serializer: serializer, budgets: newListBudgets(requesters),
		wait: maxListWait, hold: maxListHold, counts: map[countKey]counted{},
	}
}

// limit limits the large lists that next serves at the same time. A list that waits
// longer than maxListWait gets 429 with Retry-After. Install it inside of flow control,
// which limits the clients with the most requests.
func (g *listGate) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		if info.Verb == "list" || info.Verb == "watch" {
			w = responsewriter.WrapForHTTP1Or2(&yieldingWriter{ResponseWriter: w})
		}
		objects := g.objects(r, info)
		if objects < largeList {
			next.ServeHTTP(w, r)
			return
		}
		release, ok := g.acquire(r.Context(), objects)
		if !ok {
			err := errors.NewTooManyRequests("other lists of many objects are being served; use limit and continue, or try again later", g.retryAfter())
			responsewriters.ErrorNegotiated(err, g.serializer, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
			return
		}
		defer release()
		defer time.AfterFunc(g.hold, release).Stop()
		if info.Verb == "watch" {
			ctx := flowcontrol.WithInitializationSignal(r.Context(), initialized{r.Context(), release})
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// objects returns the largest number of objects that the request may list.
func (g *listGate) objects(r *http.Request, info *request.RequestInfo) int64 {
	if !info.IsResourceRequest || info.Name != "" || info.Subresource != "" {
		return 0
	}
	query := r.URL.Query()
	switch {
	case info.Verb == "list":
	case info.Verb == "watch" && store.WatchBeginsWithList(query):
	default:
		return 0
	}
	limit, err := strconv.ParseInt(query.Get("limit"), 10, 64)
	// The API server reports an invalid number.
	limited := err == nil && limit > 0 && info.Verb == "list" && store.ListIsLimited(query)
	if limited && limit < largeList {
		return limit
	}
	key := countKey{schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Namespace}
	if info.Verb == "watch" {
		key.namespace = "" // see store.WatchBeginsWithList
	}
	objects := g.stored(r.Context(), key)
	if limited {
		objects = min(objects, limit)
	}
	return objects
}

// stored returns the number of stored objects. It returns 0 on an error, which the list
// will get, too.
func (g *listGate) stored(ctx context.Context, key countKey) int64 {
	g.mu.Lock()
	known, ok := g.counts[key]
	g.mu.Unlock()
	if ok && time.Since(known.at) < countAge {
		return known.objects
	}
	// The result is nil on an error.
	result, _, _ := g.counting.Do(key.resource.String()+"/"+key.namespace, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.wait) // others use the result
		defer cancel()
		objects, err := g.count(ctx, key.resource, key.namespace)
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.counts) >= maxCounts {
			clear(g.counts)
		}
		g.counts[key] = counted{objects, time.Now()}
		return objects, nil
	})
	objects, _ := result.(int64)
	return objects
}

// acquire waits, at most maxListWait, until a list of that many objects may be served.
// release may be called more than once.
func (g *listGate) acquire(ctx context.Context, objects int64) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	return g.budgets.acquire(ctx, objects)
}

// retryAfter returns seconds that differ, so that refused clients do not come back at
// the same time.
func (g *listGate) retryAfter() int {
	seconds := max(int(g.wait.Seconds()), 1)
	return seconds/2 + 1 + rand.IntN(seconds)
}

// initialized releases the objects of a watch when its first events have been sent. It
// also passes the signal on to flow control.
type initialized struct {
	outer   context.Context
	release func()
}

// Signal implements [flowcontrol.InitializationSignal].
func (i initialized) Signal() {
	i.release()
	flowcontrol.WatchInitialized(i.outer)
}

// Wait implements [flowcontrol.InitializationSignal]. Flow control waits for the outer
// signal only.
func (i initialized) Wait() {}

// yieldingWriter lets other goroutines run after each yieldAfter bytes. Otherwise a
// goroutine that encodes, and those that it wakes, keep a processor for 10 ms, and a
// small request waits for each of the large ones several times.
type yieldingWriter struct {
	http.ResponseWriter
	written int // since it has yielded
}

// Unwrap implements [responsewriter.UserProvidedDecorator].
func (y *yieldingWriter) Unwrap() http.ResponseWriter { return y.ResponseWriter }

// Write implements [http.ResponseWriter].
func (y *yieldingWriter) Write(p []byte) (int, error) {
	n, err := y.ResponseWriter.Write(p)
	if y.written += n; y.written >= yieldAfter {
		y.written = 0
		runtime.Gosched()
	}
	return n, err
}
