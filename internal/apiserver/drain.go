package apiserver

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// errStopping is the cause with which the context of an ended request ends.
var errStopping = errors.New("the server is stopping")

// drain ends the requests that are still in flight when the grace of a stop is over: upstream's
// timeout filter answers them as at their own timeout, a minute, for which it would wait.
type drain struct {
	graceOver context.Context // ends when the grace is over
	end       context.CancelFunc
}

func newDrain() *drain {
	d := &drain{}
	d.graceOver, d.end = context.WithCancel(context.Background())
	return d
}

// keepKey is the key of the function that keeps a request from being ended.
type keepKey struct{}

// endAfterGrace wraps the whole handler chain: it ends the requests that outlive the grace.
func (d *drain) endAfterGrace(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		keep := context.AfterFunc(d.graceOver, func() { cancel(errStopping) })
		defer keep()
		chain.ServeHTTP(w, r.WithContext(context.WithValue(ctx, keepKey{}, keep)))
	})
}

// keepLongRunning wraps the innermost handler of the chain: upstream ends long-running requests
// such as watches.
func keepLongRunning(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keep, ok := r.Context().Value(keepKey{}).(func() bool)
		if info, known := request.RequestInfoFrom(r.Context()); ok && known && longRunning(r, info) {
			keep()
		}
		handler.ServeHTTP(w, r)
	})
}
