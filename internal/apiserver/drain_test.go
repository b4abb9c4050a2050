package apiserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestDrain: a request ends with the grace; a long-running one continues.
func TestDrain(t *testing.T) {
	for verb, want := range map[string]error{"get": errStopping, "watch": nil} {
		d := newDrain()
		inner := keepLongRunning(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d.end()
			if want != nil {
				<-r.Context().Done()
			}
			if cause := context.Cause(r.Context()); !errors.Is(cause, want) {
				t.Errorf("the context of a %s has ended with %v", verb, cause)
			}
		}))
		h := d.endAfterGrace(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inner.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{Verb: verb})))
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	}
}
