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
	built          chan struct{} // closed when sinks and err are set
	mux            *mux.PathRecorderMux
	sinks          kube.OpenAPISinks
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

// awaitSinks returns the sinks when the documents are built.
func (l *lazyOpenAPI) awaitSinks(ctx context.Context) (kube.OpenAPISinks, error) {
	if err := l.wait(ctx); err != nil {
		return kube.OpenAPISinks{}, err
	}
	return l.sinks, nil
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
