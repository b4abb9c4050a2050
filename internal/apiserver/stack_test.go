package apiserver

import (
	"net/http"
	"net/http/httptest"
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

// BenchmarkReadStack serves reads with upstream's filters, without HTTP/2, storage and
// priority and fairness, each on new goroutines as HTTP/2 makes them. Their stacks grow
// as the runtime does it, or at once.
func BenchmarkReadStack(b *testing.B) {
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	object := &corev1.ConfigMap{Data: map[string]string{"key": "value"}}
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		responsewriters.WriteObjectNegotiated(codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{Version: "v1"}, w, r, http.StatusOK, object, false)
	})
	var known authenticator.Request = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
	})
	chain := func(authenticator authenticator.Request) http.Handler {
		c := genericapiserver.NewConfig(codecs)
		c.LongRunningFunc, c.Serializer, c.FeatureGate = longRunning, codecs, utilfeature.DefaultFeatureGate
		c.RequestInfoResolver = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
		c.Authentication.Authenticator = authenticator
		c.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
		return genericapiserver.DefaultBuildHandlerChain(read, c)
	}
	for name, handler := range map[string]http.Handler{
		"grown by the runtime": chain(known),
		"grown at once":        growStacks(chain(stackGrower{known})),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				response, done := httptest.NewRecorder(), make(chan struct{})
				go func() {
					defer close(done)
					handler.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps/one", nil))
				}()
				if <-done; response.Code != http.StatusOK {
					b.Fatal(response.Code, response.Body)
				}
			}
		})
	}
}
