package apiserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// largeList is the cost from which on lists are limited.
	largeList = 500 * minObject
	// minObject is what an object costs at least, in bytes.
	minObject = 1300
	// maxObject is the size of the largest object that etcd stores, in bytes.
	maxObject = 3 << 19
	// yamlCost is how many times more than in JSON a list in YAML costs.
	yamlCost = 8
	// maxClientWait bounds how long a list counts while its client does not read.
	maxClientWait = 2 * time.Second
	// maxListWait bounds the time that a large list waits before it is refused.
	maxListWait = 15 * time.Second
	// yieldAfter is the number of bytes that a list or a watch writes before other
	// goroutines run. One event of a watch is sent without a delay.
	yieldAfter = 8 << 10
)

// lists bounds the lists, and the watches that begin with a list, that next serves at the same
// time, by the size of their objects. Upstream's flow control bounds requests, and
// system:masters are exempt from it: 500 lists of 5,000 objects take 1.7 GB and delay all other
// requests by seconds. A list that waits longer than maxListWait gets 429 with Retry-After.
// Install it inside of flow control, which limits the clients with the most requests.
func (l *limits) lists(next http.Handler) http.Handler {
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
		listed := l.listed(r, info)
		if err := l.refusal(r, info, listed); err != nil {
			l.refuse(w, r, info, err)
			return
		}
		cost := cost(r, listed)
		if cost < largeList || l.ListsAtOnce.IsZero() {
			next.ServeHTTP(w, r)
			return
		}
		release, ok := l.acquireList(r.Context(), cost)
		if !ok {
			err := errors.NewTooManyRequests("other lists of many objects are being served; use limit and continue, or try "+
				"again later", retryAfter())
			l.refuse(w, r, info, err)
			return
		}
		defer release()
		writer.waited = release
		if info.Verb == "list" { // upstream has all of an indented list in memory, several times
			r = r.Clone(r.Context())
			r.URL.RawQuery = "pretty=false&" + r.URL.RawQuery
		}
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

// cost is what a list counts in the budgets, in bytes: the size of its objects, of which
// each takes some memory besides.
func cost(r *http.Request, listed storage.Size) int64 {
	size := listed.Bytes
	if isYAML(r) {
		size *= yamlCost
	}
	return max(listed.Objects*minObject, size)
}

// refusal returns an error for a list that is too large to be answered at once.
func (l *limits) refusal(r *http.Request, info *request.RequestInfo, listed storage.Size) error {
	const advice = "; use the parameters limit and continue"
	largest, largestYAML := l.LargestList.Value(), l.LargestYAMLList.Value()
	switch {
	case info.Verb != "list":
		return nil
	case isYAML(r) && largestYAML > 0 && listed.Bytes > largestYAML:
		return &errors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
			Message: fmt.Sprintf("the list has about %d MiB, and at most %d MiB are encoded in YAML (limits.largestYAMLList "+
				"of the server's configuration): "+
				"request JSON%s", listed.Bytes>>20, largestYAML>>20, advice),
		}}
	case largest > 0 && listed.Bytes > largest:
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf("the list has about %d MiB, which cannot be sent "+
			"before its timeout, and at most %d MiB are allowed (limits.largestList of the server's configuration)%s",
			listed.Bytes>>20, largest>>20, advice))
	}
	return nil
}

// listed returns the largest number of objects that the request may list, and their size.
func (l *limits) listed(r *http.Request, info *request.RequestInfo) storage.Size {
	if !info.IsResourceRequest || info.Name != "" || info.Subresource != "" {
		return storage.Size{}
	}
	query := r.URL.Query()
	var initialEvents *bool
	if value, err := strconv.ParseBool(query.Get("sendInitialEvents")); err == nil {
		initialEvents = &value
	}
	switch {
	case info.Verb == "list":
	case info.Verb == "watch" && store.WatchBeginsWithList(query.Get("resourceVersion"), initialEvents):
	default:
		return storage.Size{}
	}
	namespace := info.Namespace
	if info.Verb == "watch" {
		namespace = "" // see store.WatchBeginsWithList
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxListWait)
	defer cancel()
	listed, err := l.size(ctx, schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, namespace)
	if err != nil {
		return storage.Size{} // the list gets the error, too
	}
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

// allBudget is for all requesters but system:masters and the controllers.
const allBudget = "all"

// acquireList waits, at most maxListWait, until the budgets have room for a list of that cost: first
// the budget of its requester, so that it takes no place of others meanwhile, then that of all. A list
// above an eighth counts as an eighth, and is the only one of its requester. release may be called more than once.
func (l *limits) acquireList(ctx context.Context, cost int64) (release func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, maxListWait)
	defer cancel()
	all := l.ListsAtOnce.Value()
	name, share := requesterName(ctx), all/8
	switch {
	case name == controllerRequesters:
		return l.taken.acquire(ctx, budget{name, all / 10, cost})
	case name == masterRequesters: // two lists of 5,000 objects at a time leave a part of two processors unused
		return l.taken.acquire(ctx, budget{name, all * 3 / 20, cost})
	}
	return l.taken.acquire(ctx, budget{name, share, cost}, budget{allBudget, all, min(cost, share)})
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
