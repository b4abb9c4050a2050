package kube

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
)

// readHandler answers with an object, behind upstream's filters without priority and
// fairness. Called is called in the authenticator; it may be nil.
func readHandler(adapt func(authenticator.Request) authenticator.Request, called func()) http.Handler {
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	object := &corev1.ConfigMap{Data: map[string]string{"key": "value"}}
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		responsewriters.WriteObjectNegotiated(codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{Version: "v1"}, w, r, http.StatusOK, object, false)
	})
	c := genericapiserver.NewConfig(codecs)
	c.LongRunningFunc, c.Serializer, c.FeatureGate = IsLongRunning, codecs, utilfeature.DefaultFeatureGate
	c.RequestInfoResolver = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	c.Authentication.Authenticator = adapt(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		if called != nil {
			called()
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	}))
	c.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	return genericapiserver.DefaultBuildHandlerChain(read, c)
}

func readRequest() *http.Request {
	return httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps/one", nil)
}

// TestAuthenticationGoroutine: requests are authenticated in the goroutine that
// the filter of timeouts makes.
func TestAuthenticationGoroutine(t *testing.T) {
	var stack []byte
	handler := readHandler(func(known authenticator.Request) authenticator.Request { return StackGrower{known} }, func() {
		stack = make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
	})
	response := httptest.NewRecorder()
	if GrowStack(handler).ServeHTTP(response, readRequest()); response.Code != http.StatusOK {
		t.Fatal(response.Code, response.Body)
	}
	if bytes.Contains(stack, []byte("TestAuthenticationGoroutine(")) {
		t.Errorf("the authenticator runs in the goroutine that serves the request:\n%s", stack)
	}
}

// BenchmarkReadStack serves reads with upstream's filters, without HTTP/2, storage and
// priority and fairness, each on new goroutines as HTTP/2 makes them. Their stacks grow
// as the runtime does it, or at once.
func BenchmarkReadStack(b *testing.B) {
	unchanged := func(known authenticator.Request) authenticator.Request { return known }
	grown := func(known authenticator.Request) authenticator.Request { return StackGrower{known} }
	for name, handler := range map[string]http.Handler{
		"grown by the runtime": readHandler(unchanged, nil),
		"grown at once":        GrowStack(readHandler(grown, nil)),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				response, done := httptest.NewRecorder(), make(chan struct{})
				go func() {
					defer close(done)
					handler.ServeHTTP(response, readRequest())
				}()
				if <-done; response.Code != http.StatusOK {
					b.Fatal(response.Code, response.Body)
				}
			}
		})
	}
}
