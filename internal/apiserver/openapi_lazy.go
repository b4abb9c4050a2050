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

// openAPIPaths are the paths of OpenAPI. v3 also has one path for each group and
// version.
var openAPIPaths = sets.New("/openapi/v2", "/openapi/v3")

// serveOpenAPI installs handler at the paths of OpenAPI.
func serveOpenAPI(paths *mux.PathRecorderMux, handler http.Handler) {
	for path := range openAPIPaths {
		paths.Handle(path, handler)
	}
	paths.HandlePrefix("/openapi/v3/", handler)
}

// buildOnFirstRequest installs a handler that builds the OpenAPI documents of server
// at the first request. The configuration of server must have
// SkipOpenAPIInstallation.
func buildOnFirstRequest(server *genericapiserver.GenericAPIServer, configs kube.OpenAPIConfigs) {
	built := sync.OnceValue(func() http.Handler { return kube.BuildOpenAPI(server, configs) })
	serveOpenAPI(server.Handler.NonGoRestfulMux, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		built().ServeHTTP(w, r)
	}))
}

// lazyOpenAPI serves the merged documents of all servers. The first request
// builds them; concurrent requests wait. A request of the server itself does not
// start the build, and waits for it: the admission plugin of mutating policies sends one at
// every start (see [kube.ReadsPolicySchemas]). [Server.BuildOpenAPI] starts the build, too.
type lazyOpenAPI struct {
	buildRequested chan struct{}
	requestBuild   func()        // closes buildRequested
	built          chan struct{} // closed when v2, v3 and err are set
	mux            *mux.PathRecorderMux
	v2             openapiv2.SpecAggregator
	v3             openapiv3.SpecProxier
	err            error
}

func newLazyOpenAPI() *lazyOpenAPI {
	buildRequested := make(chan struct{})
	return &lazyOpenAPI{
		buildRequested: buildRequested, requestBuild: sync.OnceFunc(func() { close(buildRequested) }),
		built: make(chan struct{}), mux: mux.NewPathRecorderMux("merged-openapi"),
	}
}

// wait returns when the documents are built. It returns the error of the build or of
// ctx.
func (l *lazyOpenAPI) wait(ctx context.Context) error {
	select {
	case <-l.built:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isBuilt reports whether the documents can be served.
func (l *lazyOpenAPI) isBuilt() bool {
	select {
	case <-l.built:
		return l.err == nil
	default:
		return false
	}
}

// ServeHTTP implements [http.Handler].
func (l *lazyOpenAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if requester, ok := request.UserFrom(r.Context()); !ok || requester.GetName() != user.APIServerUser {
		l.requestBuild()
	}
	ctx := r.Context()
	if deadline, ok := ctx.Deadline(); ok {
		// Answer before the timeout filter does: two answers to one request are
		// logged as an error.
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

// lazyV2 adds the documents of remote servers to v2.
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
	if l.wait(context.Background()) == nil { // otherwise it was never added
		l.v2.RemoveAPIService(name)
	}
}

// lazyV3 adds the documents of remote servers to v3.
type lazyV3 struct{ *lazyOpenAPI }

// AddUpdateAPIService implements [openapiv3.SpecProxier].
func (l lazyV3) AddUpdateAPIService(handler http.Handler, service *apiregistrationv1.APIService) {
	if l.wait(context.Background()) == nil { // otherwise UpdateAPIServiceSpec returns the error
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
	if l.wait(context.Background()) == nil { // otherwise it was never added
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
