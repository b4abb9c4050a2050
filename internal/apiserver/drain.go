package apiserver

import (
	"context"
	"errors"
	"net/http"
)

// errStopping is the error of what a stop ends.
var errStopping = errors.New("the server is stopping")

// drain ends the requests that are still in flight when the grace of a stop is over:
// upstream's filter of timeouts answers those without a response with 504. Upstream waits
// for them until their own timeout, a minute.
type drain struct {
	graceOver context.Context // ends when the grace is over
	end       context.CancelFunc
}

func newDrain() *drain {
	d := &drain{}
	d.graceOver, d.end = context.WithCancel(context.Background())
	return d
}

// endAfterGrace wraps the whole handler chain.
func (d *drain) endAfterGrace(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(d.graceOver, func() { cancel(errStopping) })()
		chain.ServeHTTP(w, r.WithContext(ctx))
	})
}
