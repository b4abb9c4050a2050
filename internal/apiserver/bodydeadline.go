package apiserver

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// bodySlack is the time after the timeout of a request in which the rest of its body may
// still come.
const bodySlack = time.Second

// endBodies bounds the time in which a client sends the body of a request by the timeout of the
// request. Otherwise the connection stays open after the request was answered with 504, until
// the body is complete.
func endBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := request.RequestInfoFrom(r.Context())
		end, bounded := r.Context().Deadline()
		if known && bounded && r.Body != nil && r.Body != http.NoBody && !longRunning(r, info) {
			// It fails for requests from within the process. net/http resets it for the next request.
			_ = http.NewResponseController(w).SetReadDeadline(end.Add(bodySlack))
		}
		next.ServeHTTP(w, r)
	})
}
