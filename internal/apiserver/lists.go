package apiserver

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"
)

const (
	// largeList is the number of objects from which on lists are limited.
	largeList = 500
	// maxListed bounds the number of objects of all large lists that are served at the
	// same time. A list takes about 300 bytes for each object, and 1.3 MB for
	// encoding and compression.
	maxListed = 50_000
	// maxListWait bounds the time that a large list waits before it is refused.
	maxListWait = 15 * time.Second
	// maxListHold bounds the time that a list counts against maxListed: a client that
	// reads slowly must not block others.
	maxListHold = 15 * time.Second
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
	serializer runtime.NegotiatedSerializer
	listed     *semaphore.Weighted
	wait, hold time.Duration

	mu     sync.Mutex
	counts map[countKey]counted
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
func newListGate(count func(context.Context, schema.GroupResource, string) (int64, error), serializer runtime.NegotiatedSerializer) *listGate {
	return &listGate{
		count: count, serializer: serializer, listed: semaphore.NewWeighted(maxListed),
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
		objects := g.objects(r, info)
		if objects < largeList {
			next.ServeHTTP(w, r)
			return
		}
		release, ok := g.acquire(r.Context(), objects)
		if !ok {
			err := errors.NewTooManyRequests("other lists of many objects are being served; use limit and continue, or try again later", int(g.wait.Seconds()))
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
	switch version := query.Get("resourceVersion"); {
	case info.Verb == "list":
	case info.Verb == "watch" && (version == "" || version == "0" || query.Get("sendInitialEvents") == "true"):
	default:
		return 0
	}
	limit, err := strconv.ParseInt(query.Get("limit"), 10, 64)
	limited := err == nil && limit > 0 // upstream reports an invalid number
	if limited && limit < largeList {
		return limit
	}
	objects := g.stored(r.Context(), countKey{schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Namespace})
	if limited {
		objects = min(objects, limit)
	}
	return min(objects, maxListed)
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
	objects, err := g.count(ctx, key.resource, key.namespace)
	if err != nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.counts) >= maxCounts {
		clear(g.counts)
	}
	g.counts[key] = counted{objects, time.Now()}
	return objects
}

// acquire waits until a list of that many objects may be served. release may be called
// more than once.
func (g *listGate) acquire(ctx context.Context, objects int64) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, g.wait)
	defer cancel()
	if err := g.listed.Acquire(ctx, objects); err != nil {
		return nil, false
	}
	return sync.OnceFunc(func() { g.listed.Release(objects) }), true
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
