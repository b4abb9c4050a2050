package apiserver

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	openapiv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"
)

// openAPIPaths are what OpenAPI is served at; v3 has a document below its path
// for each group and version.
var openAPIPaths = sets.New("/openapi/v2", "/openapi/v3")

// serveOpenAPI has a handler answer for OpenAPI.
func serveOpenAPI(paths *mux.PathRecorderMux, handler http.Handler) {
	for path := range openAPIPaths {
		paths.Handle(path, handler)
	}
	paths.HandlePrefix("/openapi/v3/", handler)
}

// buildWhenAsked has the server build its OpenAPI for whoever asks first, where
// upstream builds it before anything is served
// (GenericAPIServer.PrepareRun), which was a good part of the start. The
// configuration must skip upstream's installation.
func buildWhenAsked(server *genericapiserver.GenericAPIServer, configs openAPIConfigs) {
	built := sync.OnceValue(func() http.Handler {
		paths := mux.NewPathRecorderMux("openapi")
		documents := routes.OpenAPI{Config: configs.v2, V3Config: configs.v3}
		documents.InstallV2(server.Handler.GoRestfulContainer, paths)
		documents.InstallV3(server.Handler.GoRestfulContainer, paths)
		return paths
	})
	serveOpenAPI(server.Handler.NonGoRestfulMux, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		built().ServeHTTP(w, r)
	}))
}

// lateOpenAPI stands for the merged documents of all servers until they are
// built, which begins when somebody wants them. Who asks before waits. The
// server itself asks as soon as it starts, for admission policies that mutate
// (TypeConverterManager of
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch): it waits as
// well, until a write needs them and [Server.WarmUp] is called.
type lateOpenAPI struct {
	wanted chan struct{}
	want   func()        // closes wanted
	done   chan struct{} // closed when what follows is set
	mux    *mux.PathRecorderMux
	v2     openapiv2.SpecAggregator
	v3     openapiv3.SpecProxier
	err    error
}

func newLateOpenAPI() *lateOpenAPI {
	wanted := make(chan struct{})
	return &lateOpenAPI{
		wanted: wanted, want: sync.OnceFunc(func() { close(wanted) }),
		done: make(chan struct{}), mux: mux.NewPathRecorderMux("merged-openapi"),
	}
}

// wait returns when the documents are built, or with the reason why they are
// not.
func (l *lateOpenAPI) wait(ctx context.Context) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ServeHTTP implements [http.Handler].
func (l *lateOpenAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if asker, ok := request.UserFrom(r.Context()); !ok || asker.GetName() != user.APIServerUser {
		l.want()
	}
	if err := l.wait(r.Context()); err != nil {
		http.Error(w, "OpenAPI is not built: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	l.mux.ServeHTTP(w, r)
}

// lateV2 is the part that remote servers are added to, in v2.
type lateV2 struct{ *lateOpenAPI }

// AddUpdateAPIService implements [openapiv2.SpecAggregator].
func (l lateV2) AddUpdateAPIService(service *apiregistrationv1.APIService, handler http.Handler) error {
	if err := l.wait(context.Background()); err != nil {
		return err
	}
	return l.v2.AddUpdateAPIService(service, handler)
}

// UpdateAPIServiceSpec implements [openapiv2.SpecAggregator].
func (l lateV2) UpdateAPIServiceSpec(name string) error {
	if err := l.wait(context.Background()); err != nil {
		return err
	}
	return l.v2.UpdateAPIServiceSpec(name)
}

// RemoveAPIService implements [openapiv2.SpecAggregator].
func (l lateV2) RemoveAPIService(name string) {
	if l.wait(context.Background()) == nil { // else it was never added
		l.v2.RemoveAPIService(name)
	}
}

// lateV3 is the part that remote servers are added to, in v3.
type lateV3 struct{ *lateOpenAPI }

// AddUpdateAPIService implements [openapiv3.SpecProxier].
func (l lateV3) AddUpdateAPIService(handler http.Handler, service *apiregistrationv1.APIService) {
	if l.wait(context.Background()) == nil { // else UpdateAPIServiceSpec says so
		l.v3.AddUpdateAPIService(handler, service)
	}
}

// UpdateAPIServiceSpec implements [openapiv3.SpecProxier].
func (l lateV3) UpdateAPIServiceSpec(name string) error {
	if err := l.wait(context.Background()); err != nil {
		return err
	}
	return l.v3.UpdateAPIServiceSpec(name)
}

// RemoveAPIServiceSpec implements [openapiv3.SpecProxier].
func (l lateV3) RemoveAPIServiceSpec(name string) {
	if l.wait(context.Background()) == nil { // else it was never added
		l.v3.RemoveAPIServiceSpec(name)
	}
}

// GetAPIServiceNames implements [openapiv3.SpecProxier].
func (l lateV3) GetAPIServiceNames() []string {
	if l.wait(context.Background()) != nil {
		return nil
	}
	return l.v3.GetAPIServiceNames()
}
