package apiserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	openapiv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
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

// buildWhenAsked has the server build its OpenAPI documents at the first request
// for one. Its configuration must skip upstream's installation.
func buildWhenAsked(server *genericapiserver.GenericAPIServer, configs kube.OpenAPIConfigs) {
	built := sync.OnceValue(func() http.Handler { return kube.BuildOpenAPI(server, configs) })
	serveOpenAPI(server.Handler.NonGoRestfulMux, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		built().ServeHTTP(w, r)
	}))
}

// lazyOpenAPI serves the merged documents of all servers. The first request
// builds them; concurrent requests wait. A request of the server itself does not
// start the build, because one comes at every start, for admission policies that
// mutate (TypeConverterManager of
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch); it waits until
// another request or [Server.WarmUp] does.
type lazyOpenAPI struct {
	wanted chan struct{}
	want   func()        // closes wanted
	done   chan struct{} // closed when what follows is set
	mux    *mux.PathRecorderMux
	v2     openapiv2.SpecAggregator
	v3     openapiv3.SpecProxier
	err    error
}

func newLazyOpenAPI() *lazyOpenAPI {
	wanted := make(chan struct{})
	return &lazyOpenAPI{
		wanted: wanted, want: sync.OnceFunc(func() { close(wanted) }),
		done: make(chan struct{}), mux: mux.NewPathRecorderMux("merged-openapi"),
	}
}

// wait returns when the documents are built, or with the reason why they are
// not.
func (l *lazyOpenAPI) wait(ctx context.Context) error {
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ServeHTTP implements [http.Handler].
func (l *lazyOpenAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if asker, ok := request.UserFrom(r.Context()); !ok || asker.GetName() != user.APIServerUser {
		l.want()
	}
	ctx := r.Context()
	if deadline, ok := ctx.Deadline(); ok {
		// Before the timeout filter answers: an answer that it finds begun is an
		// error in the log.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Second))
		defer cancel()
	}
	if err := l.wait(ctx); err != nil {
		http.Error(w, "OpenAPI is not built: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	l.mux.ServeHTTP(w, r)
}

// lazyV2 is the part that remote servers are added to, in v2.
type lazyV2 struct{ *lazyOpenAPI }

// AddUpdateAPIService implements [openapiv2.SpecAggregator].
func (l lazyV2) AddUpdateAPIService(service *apiregistrationv1.APIService, handler http.Handler) error {
	if err := l.wait(context.Background()); err != nil {
		return err
	}
	return l.v2.AddUpdateAPIService(service, handler)
}

// UpdateAPIServiceSpec implements [openapiv2.SpecAggregator].
func (l lazyV2) UpdateAPIServiceSpec(name string) error {
	if err := l.wait(context.Background()); err != nil {
		return err
	}
	return l.v2.UpdateAPIServiceSpec(name)
}

// RemoveAPIService implements [openapiv2.SpecAggregator].
func (l lazyV2) RemoveAPIService(name string) {
	if l.wait(context.Background()) == nil { // else it was never added
		l.v2.RemoveAPIService(name)
	}
}

// lazyV3 is the part that remote servers are added to, in v3.
type lazyV3 struct{ *lazyOpenAPI }

// AddUpdateAPIService implements [openapiv3.SpecProxier].
func (l lazyV3) AddUpdateAPIService(handler http.Handler, service *apiregistrationv1.APIService) {
	if l.wait(context.Background()) == nil { // else UpdateAPIServiceSpec says so
		l.v3.AddUpdateAPIService(handler, service)
	}
}

// UpdateAPIServiceSpec implements [openapiv3.SpecProxier].
func (l lazyV3) UpdateAPIServiceSpec(name string) error {
	if err := l.wait(context.Background()); err != nil {
		return err
	}
	return l.v3.UpdateAPIServiceSpec(name)
}

// RemoveAPIServiceSpec implements [openapiv3.SpecProxier].
func (l lazyV3) RemoveAPIServiceSpec(name string) {
	if l.wait(context.Background()) == nil { // else it was never added
		l.v3.RemoveAPIServiceSpec(name)
	}
}

// GetAPIServiceNames implements [openapiv3.SpecProxier].
func (l lazyV3) GetAPIServiceNames() []string {
	if l.wait(context.Background()) != nil {
		return nil
	}
	return l.v3.GetAPIServiceNames()
}
