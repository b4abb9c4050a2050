package apiserver

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	openapiv3controller "k8s.io/kube-aggregator/pkg/controllers/openapiv3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/aggregation"
	crdopenapi "kube-hyper-mini.io/kube-hyper-mini/internal/crds/openapi"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/version"
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
// start the build, and waits for it: the admission plugin of mutating policies sends one for
// the list of documents at every start, and refuses what its policies match until it has
// the answer. [Server.BuildOpenAPI] starts the build, too.
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

// documents merges discovery and OpenAPI of remote API servers into the aggregator's.
// Upstream's code does that; it reads copies instead of the remote servers.
type documents struct {
	copies    *aggregation.Documents
	discovery aggregatorapiserver.DiscoveryAggregationController
	openAPI   *lazyOpenAPI
	build     func() error // of openAPI
}

// addDocuments is called before the aggregator prepares to run.
func addDocuments(aggregator *aggregatorapiserver.APIAggregator, copies *aggregation.Documents) (*documents, error) {
	server := aggregator.GenericAPIServer
	d := &documents{copies: copies, openAPI: newLazyOpenAPI()}
	d.discovery = aggregatorapiserver.NewDiscoveryManager(
		server.AggregatedDiscoveryGroupManager.WithSource(aggregated.AggregatorSource))
	return d, server.AddPostStartHook(kube.DocumentsHook, d.run)
}

// addOpenAPI is called after the aggregator has prepared to run: its delegates have their
// OpenAPI then. The documents are built later, see lazyOpenAPI.
func (d *documents) addOpenAPI(server *genericapiserver.GenericAPIServer, taken kube.OpenAPIConfigs,
	definitions crdopenapi.Source, log *slog.Logger) {
	lazy := d.openAPI
	d.build = func() (err error) {
		lazy.sinks.V2, lazy.sinks.V3, err = kube.MergeOpenAPI(server, taken, lazy.mux)
		return err
	}
	serveOpenAPI(server.Handler.NonGoRestfulMux, crdopenapi.NewHandler(lazy, definitions, version.Kubernetes(), log))
}

// keepOpenAPI builds the merged documents at the first request and keeps v3 of the
// delegates current until ctx ends.
func (d *documents) keepOpenAPI(ctx context.Context) {
	select {
	case <-d.openAPI.buildRequested:
		d.openAPI.err = d.build()
	case <-ctx.Done():
		d.openAPI.err = context.Cause(ctx)
	}
	close(d.openAPI.built)
	if err := d.openAPI.err; err != nil {
		if ctx.Err() == nil {
			slog.Error("building the OpenAPI documents failed: requests for them get the error until a restart", "error", err)
		}
		return
	}
	d.copies.OpenAPIBuilt(d.openAPI.sinks)
	openapiv3controller.NewAggregationController(d.openAPI.sinks.V3).RunWithContext(ctx)
}

// run is the post-start hook. When it returns, discovery lists all remote
// APIServices.
func (d *documents) run(hook genericapiserver.PostStartHookContext) error {
	go d.keepOpenAPI(hook)
	go d.copies.Run(hook, d.discovery)
	select {
	case <-d.copies.Listed():
	case <-hook.Done():
		return nil
	}
	synced := make(chan struct{})
	go d.discovery.Run(hook.Done(), synced)
	select {
	case <-synced: // soon, because it reads the copies
	case <-hook.Done():
	}
	return nil
}
