package apiserver

import (
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// namespaceWrites counts the requests in flight that may create objects in a namespace.
// A request that was admitted before a namespace began to terminate may write its
// object much later, for example after a slow webhook. The namespace controller waits
// for such requests before it deletes the content of a namespace. It is safe for
// concurrent use.
type namespaceWrites struct {
	mu       sync.Mutex
	inFlight map[string][]*writeBatch // by namespace, oldest first
}

// writeBatch has the requests that began between two calls of afterWrites.
type writeBatch struct {
	requests int
	done     []func() // called when this batch and all older ones have ended
}

func newNamespaceWrites() *namespaceWrites {
	return &namespaceWrites{inFlight: map[string][]*writeBatch{}}
}

// creatingVerbs are the verbs that can create an object: update and patch (apply) can, too.
var creatingVerbs = sets.New("create", "update", "patch")

// track counts the requests that handler serves. Install it inside of the handler chain:
// the context must have the request information, and a request that has timed out
// counts until handler returns.
func (n *namespaceWrites) track(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.Namespace == "" || info.Resource == "namespaces" ||
			!creatingVerbs.Has(info.Verb) || longRunning(r, info) {
			handler.ServeHTTP(w, r)
			return
		}
		batch := n.begin(info.Namespace)
		defer n.end(info.Namespace, batch)
		handler.ServeHTTP(w, r)
	})
}

func (n *namespaceWrites) begin(namespace string) *writeBatch {
	n.mu.Lock()
	defer n.mu.Unlock()
	batches := n.inFlight[namespace]
	if len(batches) == 0 || len(batches[len(batches)-1].done) > 0 {
		batches = append(batches, &writeBatch{})
		n.inFlight[namespace] = batches
	}
	newest := batches[len(batches)-1]
	newest.requests++
	return newest
}

func (n *namespaceWrites) end(namespace string, batch *writeBatch) {
	n.mu.Lock()
	batch.requests--
	batches := n.inFlight[namespace]
	var done []func()
	for len(batches) > 0 && batches[0].requests == 0 {
		done = append(done, batches[0].done...)
		batches = batches[1:]
	}
	// A batch without requests between others stays until the older ones end.
	if len(batches) == 0 {
		delete(n.inFlight, namespace)
	} else {
		n.inFlight[namespace] = slices.Clip(batches)
	}
	n.mu.Unlock()
	for _, f := range done {
		f()
	}
}

// afterWrites calls f when the requests in flight that may create objects in the
// namespace have ended; at once if there are none. It does not wait for later requests.
// f must not block.
func (n *namespaceWrites) afterWrites(namespace string, f func()) {
	n.mu.Lock()
	batches := n.inFlight[namespace]
	if len(batches) > 0 {
		newest := batches[len(batches)-1]
		newest.done = append(newest.done, f)
	}
	n.mu.Unlock()
	if len(batches) == 0 {
		f()
	}
}
