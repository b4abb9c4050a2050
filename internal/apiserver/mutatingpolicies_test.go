package apiserver

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// listRequest is a request for the list of OpenAPI documents.
func listRequest(ctx context.Context, requester string) *http.Request {
	return httptest.NewRequest(http.MethodGet, "/openapi/v3", nil).WithContext(request.WithUser(ctx, &user.DefaultInfo{Name: requester}))
}

// TestPluginsRequestsAreHeld: the plugin gets the list when it has changed, after a
// while, or when it leaves or the server stops; others get it at once.
func TestPluginsRequestsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		openAPI := newLazyOpenAPI()
		close(openAPI.built)
		policies := &mutatingPolicies{read: make(chan struct{})}
		policies.markRead = sync.OnceFunc(func() { close(policies.read) })
		var version atomic.Value
		version.Store("1")
		answers := 0
		handler := policies.observe(openAPI, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answers++ }),
			func(*http.Request) string { return version.Load().(string) })
		took := func(ctx context.Context, requester string) time.Duration {
			t.Helper()
			before, began := answers, time.Now()
			handler.ServeHTTP(httptest.NewRecorder(), listRequest(ctx, requester))
			if answers != before+1 {
				t.Errorf("answered %d times", answers-before)
			}
			return time.Since(began)
		}
		if d := took(t.Context(), user.APIServerUser); d != 0 {
			t.Errorf("the first request took %v", d)
		}
		select {
		case <-policies.read:
		default:
			t.Error("the plugin has read the list, and a start still waits")
		}
		if d := took(t.Context(), "jane"); d != 0 {
			t.Errorf("a user's request took %v", d)
		}
		if d := took(t.Context(), user.APIServerUser); d != maxPolicyListHold {
			t.Errorf("without a change a request took %v, want %v", d, maxPolicyListHold)
		}
		time.AfterFunc(policyListCheck+time.Second, func() { version.Store("2") })
		if d := took(t.Context(), user.APIServerUser); d != 2*policyListCheck {
			t.Errorf("with a change a request took %v", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if d := took(ctx, user.APIServerUser); d != 9*time.Second {
			t.Errorf("a request with a deadline of 10 s took %v", d)
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if d := took(gone, user.APIServerUser); d != time.Second {
			t.Errorf("a request whose client left after 1 s took %v", d)
		}
		time.AfterFunc(time.Second, func() { close(openAPI.stopping) })
		if d := took(t.Context(), user.APIServerUser); d != time.Second {
			t.Errorf("a request of a server that stops after 1 s took %v", d)
		}
		version.Store("")
		if d := took(t.Context(), user.APIServerUser); d != 0 {
			t.Errorf("a request of a list whose version is not known took %v", d)
		}
	})
}
