package apiserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// largeList is the cost from which on lists are limited.
	largeList = 500
	// objectSize is the size of an object, in bytes, that costs 1; smaller ones cost 1, too.
	objectSize = 1300
	// maxObject is the size of the largest object that etcd stores, in bytes.
	maxObject = 3 << 19
	// maxYAMLList is the size of the largest list in YAML, whose encoder has all of it in
	// memory several times, and goes on after the end of the request.
	maxYAMLList = 4 << 20
	// yamlCost is how many times more than in JSON a list in YAML costs.
	yamlCost = 8
	// maxClientWait bounds the time for which a list counts that waits for its client.
	maxClientWait = 2 * time.Second
	// maxListWait bounds the time that a large list waits before it is refused.
	maxListWait = 15 * time.Second
	// maxListed bounds the cost of all large lists that are served at the same time. A list
	// takes about 300 bytes for each object, and 1.3 MB for encoding and compression.
	maxListed = 50_000
	// maxUserListed is the same for each requester: one that does not read its lists leaves
	// room for others.
	maxUserListed = maxListed / 4
	// maxMastersListed is the same for system:masters, whose lists do not wait for those of
	// other users: two lists of 5,000 at a time leave a part of two processors unused.
	maxMastersListed = 15_000
	// maxControllersListed is the same for the controllers and informers of servers.
	maxControllersListed = 10_000
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
	size       func(ctx context.Context, resource schema.GroupResource, namespace string) (storage.Size, error)
	largest    int64 // size of the objects of a list, in bytes; 0 for no bound
	serializer k8sruntime.NegotiatedSerializer
	requesters requesters

	// all and ofUser are for all requesters but the other two.
	all, ofUser, masters, controllers *shares

	mu       sync.Mutex
	counts   map[countKey]counted
	counting singleflight.Group
}

type countKey struct {
	resource  schema.GroupResource
	namespace string
}

type counted struct {
	storage.Size
	at time.Time
}

// newListGate returns a gate. size returns that of the stored objects of a resource, in one
// namespace or, if it is empty, in all.
func newListGate(size func(context.Context, schema.GroupResource, string) (storage.Size, error), largest int64, requesters requesters, serializer k8sruntime.NegotiatedSerializer) *listGate {
	return &listGate{
		size: size, largest: largest, serializer: serializer, requesters: requesters,
		all: newShares(maxListed), ofUser: newShares(maxUserListed), masters: newShares(maxMastersListed), controllers: newShares(maxControllersListed),
		counts: map[countKey]counted{},
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
		writer := &yieldingWriter{ResponseWriter: w, left: maxClientWait, waited: func() {}}
		if info.Verb == "list" || info.Verb == "watch" {
			w = responsewriter.WrapForHTTP1Or2(writer)
		}
		listed := g.listed(r, info)
		if err := g.refusal(r, info, listed); err != nil {
			responsewriters.ErrorNegotiated(err, g.serializer, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
			return
		}
		cost := cost(r, listed)
		if cost < largeList {
			next.ServeHTTP(w, r)
			return
		}
		release, ok := g.acquire(r.Context(), cost)
		if !ok {
			err := errors.NewTooManyRequests("other lists of many objects are being served; use limit and continue, or try again later", retryAfter())
			responsewriters.ErrorNegotiated(err, g.serializer, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
			return
		}
		defer release()
		writer.waited = release
		if info.Verb == "watch" {
			ctx := flowcontrol.WithInitializationSignal(r.Context(), initialized{r.Context(), release})
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// isYAML reports whether the answer may be in YAML: the first encoding in Accept that the
// type has is used, which differs.
func isYAML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "yaml") }

// cost is what a list counts in the budgets: its objects, or more if they are large.
func cost(r *http.Request, listed storage.Size) int64 {
	size := listed.Bytes
	if isYAML(r) {
		size *= yamlCost
	}
	return max(listed.Objects, size/objectSize)
}

// refusal returns an error for a list that is too large to be answered at once.
func (g *listGate) refusal(r *http.Request, info *request.RequestInfo, listed storage.Size) error {
	const advice = "; use the parameters limit and continue"
	switch {
	case info.Verb != "list":
		return nil
	case isYAML(r) && listed.Bytes > maxYAMLList:
		return &errors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
			Message: fmt.Sprintf("the list has about %d MiB, and at most %d MiB are encoded in YAML: request JSON%s", listed.Bytes>>20, maxYAMLList>>20, advice),
		}}
	case g.largest > 0 && listed.Bytes > g.largest:
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf("the list has about %d MiB, which cannot be sent before its timeout, and at most %d MiB are allowed (limits.largestList of the server's configuration)%s",
			listed.Bytes>>20, g.largest>>20, advice))
	}
	return nil
}

// listed returns the largest number of objects that the request may list, and their size.
func (g *listGate) listed(r *http.Request, info *request.RequestInfo) storage.Size {
	if !info.IsResourceRequest || info.Name != "" || info.Subresource != "" {
		return storage.Size{}
	}
	query := r.URL.Query()
	switch {
	case info.Verb == "list":
	case info.Verb == "watch" && store.WatchBeginsWithList(query):
	default:
		return storage.Size{}
	}
	key := countKey{schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Namespace}
	if info.Verb == "watch" {
		key.namespace = "" // see store.WatchBeginsWithList
	}
	listed := g.stored(r.Context(), key)
	limit, err := strconv.ParseInt(query.Get("limit"), 10, 64)
	// The API server reports an invalid number.
	if err != nil || limit <= 0 || limit >= listed.Objects || info.Verb != "list" || !store.ListIsLimited(query) {
		return listed
	}
	size := listed.Bytes / listed.Objects * limit
	if isYAML(r) {
		size = min(listed.Bytes, limit*maxObject) // the first ones may be larger than others
	}
	return storage.Size{Objects: limit, Bytes: size}
}

// stored returns the size of the stored objects. It is 0 on an error, which the list
// will get, too.
func (g *listGate) stored(ctx context.Context, key countKey) storage.Size {
	g.mu.Lock()
	known, ok := g.counts[key]
	g.mu.Unlock()
	if ok && time.Since(known.at) < countAge {
		return known.Size
	}
	// The result is nil on an error.
	result, _, _ := g.counting.Do(key.resource.String()+"/"+key.namespace, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxListWait) // others use the result
		defer cancel()
		size, err := g.size(ctx, key.resource, key.namespace)
		if err != nil {
			return nil, err
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.counts) >= maxCounts {
			clear(g.counts)
		}
		g.counts[key] = counted{size, time.Now()}
		return size, nil
	})
	size, _ := result.(storage.Size)
	return size
}

// acquire waits, at most maxListWait, until a list of that cost may be served: for those of
// its requester before it takes a place behind those of others. release may be called more
// than once.
func (g *listGate) acquire(ctx context.Context, cost int64) (release func(), ok bool) {
	name := g.requesters.name(ctx)
	ctx, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	switch name {
	case controllerRequesters:
		return g.controllers.acquire(ctx, name, cost)
	case masterRequesters:
		return g.masters.acquire(ctx, name, cost)
	}
	releaseUser, ok := g.ofUser.acquire(ctx, name, cost)
	if !ok {
		return nil, false
	}
	releaseAll, ok := g.all.acquire(ctx, "", cost)
	if !ok {
		releaseUser()
		return nil, false
	}
	return func() { releaseAll(); releaseUser() }, true
}

// retryAfter returns seconds that differ, so that refused clients do not come back at
// the same time.
func retryAfter() int {
	const seconds = int(maxListWait / time.Second)
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
	// waited is called when the client has kept the writer waiting for the time left.
	waited func()
	left   time.Duration
}

// Unwrap implements [responsewriter.UserProvidedDecorator].
func (y *yieldingWriter) Unwrap() http.ResponseWriter { return y.ResponseWriter }

// Write implements [http.ResponseWriter].
func (y *yieldingWriter) Write(p []byte) (int, error) {
	began, timer := time.Now(), time.AfterFunc(y.left, y.waited)
	n, err := y.ResponseWriter.Write(p)
	timer.Stop()
	y.left = max(y.left-time.Since(began), 0)
	if y.written += n; y.written >= yieldAfter {
		y.written = 0
		runtime.Gosched()
	}
	return n, err
}
