package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
)

// shutdownTimeout bounds how long connections may take to close once their
// requests have been drained. Nothing is lost with a connection that has no
// request, and HTTP/2 takes a second to say goodbye on each. Upstream's bound
// is the request timeout, a minute.
const shutdownTimeout = 100 * time.Millisecond

// Server is the chain, ready to run.
type Server struct {
	run                  func(ctx context.Context) error
	listener             *Listener
	server               *genericapiserver.GenericAPIServer
	informers            informers.SharedInformerFactory
	resources            *serverstorage.ResourceConfig
	caches               *caches
	crds                 *crds.Server
	writes               *namespaceWrites
	profile              profile
	rbac                 bool
	drain                *drain
	bootstrap            bootstrapToken
	stopGrace            time.Duration
	openAPI              *lazyOpenAPI
	mutating             *mutatingPolicies
	encryption           value.ResourceTransformers // nil without encryption
	log                  *slog.Logger
	progress             progress
	servedtypes.Follower // of the CRDs and APIServices
}

// FillCaches starts the informers and gives them a moment to read what there
// is, so that nobody waits for them later. Call it when the store can be read,
// before Run and before the first write.
func (s *Server) FillCaches(ctx context.Context) { s.caches.fill(ctx) }

// Run serves until ctx ends and the requests have been drained. Requests that take
// longer than the grace are answered with an error. It calls ready when the bootstrap
// objects are written and all checks of /readyz but ownCheck succeed: the controllers
// can start then. It may be called once.
func (s *Server) Run(ctx context.Context, ownCheck string, ready func()) error {
	serving, ctx := errgroup.WithContext(ctx)
	serving.Go(func() error {
		if err := s.serve(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		return errors.New("the API server stopped serving")
	})
	serving.Go(func() error {
		if err := s.writeBootstrap(ctx, ownCheck); err != nil {
			return err
		}
		ready()
		return nil
	})
	return serving.Wait()
}

func (s *Server) serve(ctx context.Context) error {
	s.listener.served.Store(true)
	defer s.caches.stop() // if it did not come to its hooks
	ended := make(chan struct{})
	var draining sync.WaitGroup
	draining.Go(func() { s.endDrain(ctx, ended) })
	err := s.run(ctx)
	close(ended)
	draining.Wait()
	return err
}

// endDrain cuts the requests in flight when the grace is over after the end of
// ctx, unless the server has ended.
func (s *Server) endDrain(ctx context.Context, ended <-chan struct{}) {
	defer s.drain.end()
	select {
	case <-ctx.Done():
	case <-ended:
		return
	}
	grace := time.NewTimer(s.server.ShutdownDelayDuration + s.stopGrace)
	defer grace.Stop()
	select {
	case <-grace.C:
	case <-ended:
	}
}

// BuildOpenAPI starts to build the merged OpenAPI documents, for which the first
// request would wait otherwise. Until they are built, mutating admission policies
// refuse the requests that they match. It returns at once.
func (s *Server) BuildOpenAPI() { s.openAPI.requestBuild() }

// Discard gives back what New has made, of a server that was never run.
func (s *Server) Discard() {
	s.caches.stop()
	s.server.Destroy()
}

// Loopback is a client configuration for this process: system:masters over
// the server's own listener.
func (s *Server) Loopback() *rest.Config { return rest.CopyConfig(s.server.LoopbackClientConfig) }

// Informers are shared with the API server's own plugins: one cache for each
// type in the process.
func (s *Server) Informers() informers.SharedInformerFactory { return s.informers }

// Handle adds a path beside the API. Requests to it are authenticated, and
// authorized as a non-resource URL. Call it before Run.
func (s *Server) Handle(path string, handler http.Handler) {
	s.server.Handler.NonGoRestfulMux.Handle(path, handler)
}

// Serves says whether the resource of a built-in API is switched on.
func (s *Server) Serves(resource schema.GroupVersionResource) bool {
	return s.resources.ResourceEnabled(resource)
}

// AfterWrites calls f once all requests to this server have ended that may
// create objects in the namespace and are in flight now. f must not block.
func (s *Server) AfterWrites(namespace string, f func()) { s.writes.afterWrites(namespace, f) }

// RBAC says whether RBAC is one of the authorizers.
func (s *Server) RBAC() bool { return s.rbac }

// bootstrapConfig is Loopback for the writes that admission does not see.
func (s *Server) bootstrapConfig() *rest.Config {
	config := s.Loopback()
	config.BearerToken = string(s.bootstrap)
	return rest.AddUserAgent(config, "bootstrap")
}

// CustomTypes counts the types that CRDs define, and those that have objects.
func (s *Server) CustomTypes(ctx context.Context) (crds.Types, error) { return s.crds.Types(ctx) }
