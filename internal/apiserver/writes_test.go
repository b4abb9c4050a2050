package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestAfterWrites: the callback waits for the requests that were in flight when
// it was registered, and for no others.
func TestAfterWrites(t *testing.T) {
	writes := newNamespaceWrites()
	called := map[string]bool{}
	after := func(name string) func() { return func() { called[name] = true } }
	wants := func(name string, want bool) {
		t.Helper()
		if called[name] != want {
			t.Errorf("%s was called: %t, want %t", name, called[name], want)
		}
	}

	writes.afterWrites("a", after("nothing in flight"))
	wants("nothing in flight", true)

	first, second, other := writes.begin("a"), writes.begin("a"), writes.begin("b")
	writes.afterWrites("a", after("two in flight"))
	third := writes.begin("a")
	writes.afterWrites("a", after("three in flight"))
	fourth := writes.begin("a")
	writes.end("a", first)
	wants("two in flight", false)
	writes.end("a", third)
	wants("three in flight", false) // second still is
	writes.end("a", second)
	wants("two in flight", true)
	wants("three in flight", true)
	writes.end("a", fourth)
	writes.end("b", other)
	if len(writes.inFlight) != 0 {
		t.Errorf("left behind: %v", writes.inFlight)
	}
}

// TestTrackedRequests: requests that can create an object in a namespace count.
func TestTrackedRequests(t *testing.T) {
	for name, test := range map[string]struct {
		info request.RequestInfo
		want bool
	}{
		"create":                 {request.RequestInfo{IsResourceRequest: true, Verb: "create", Namespace: "a", Resource: "secrets"}, true},
		"update":                 {request.RequestInfo{IsResourceRequest: true, Verb: "update", Namespace: "a", Resource: "widgets"}, true},
		"apply":                  {request.RequestInfo{IsResourceRequest: true, Verb: "patch", Namespace: "a", Resource: "widgets"}, true},
		"get":                    {request.RequestInfo{IsResourceRequest: true, Verb: "get", Namespace: "a", Resource: "secrets"}, false},
		"delete":                 {request.RequestInfo{IsResourceRequest: true, Verb: "delete", Namespace: "a", Resource: "secrets"}, false},
		"of the cluster":         {request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "clusterroles"}, false},
		"of the namespace":       {request.RequestInfo{IsResourceRequest: true, Verb: "update", Namespace: "a", Resource: "namespaces", Subresource: "finalize"}, false},
		"a stream":               {request.RequestInfo{IsResourceRequest: true, Verb: "create", Namespace: "a", Resource: "things", Subresource: "exec"}, false},
		"no request of a kind":   {request.RequestInfo{Verb: "post", Path: "/version"}, false},
		"without a request info": {},
	} {
		t.Run(name, func(t *testing.T) {
			writes := newNamespaceWrites()
			counted := false
			handler := writes.track(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { counted = len(writes.inFlight) > 0 }))
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r = r.WithContext(request.WithRequestInfo(r.Context(), &test.info))
			handler.ServeHTTP(httptest.NewRecorder(), r)
			if counted != test.want {
				t.Errorf("it counts: %t, want %t", counted, test.want)
			}
			if len(writes.inFlight) != 0 {
				t.Error("it counts after its end")
			}
		})
	}
}
