package apiserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// shutdownTimeout bounds the time in which connections close after their requests have
// been drained. A connection without requests can be closed at once; the graceful
// shutdown of HTTP/2 takes a second for each. Upstream's bound is the request timeout,
// a minute.
const shutdownTimeout = 100 * time.Millisecond

// Server is the chain of API servers that [New] has made.
type Server struct {
	run                  func(ctx context.Context) error
	listener             *Listener
	server               *genericapiserver.GenericAPIServer
	loopback             *kube.Loopback
	files                certificateFiles
	informers            *readyInformers
	registrations        aggregatorinformers.SharedInformerFactory
	resources            *serverstorage.ResourceConfig
	namespaces           []string // that each server has
	caches               *caches
	crds                 *crds.Server
	storage              *storage.Storage
	stores               generic.RESTOptionsGetter // of built-in types
	writes               *namespaceWrites
	profile              profile
	remote               remote
	rbac, flowControl    bool
	apiServices          []*apiregistration.APIService // of built-in groups
	apiServiceStores     generic.RESTOptionsGetter
	hasFirstObjects      bool // CreateFirstObjects has stored them
	drain                *drain
	bootstrap            bootstrapToken
	stopGrace            time.Duration
	openAPI              *lazyOpenAPI
	encryption           value.ResourceTransformers // nil without encryption
	log                  *slog.Logger
	waitsFor             atomic.Value // a string, see WaitsFor
	servedtypes.Follower              // of the CRDs and APIServices
}

// FillCaches starts the informers and waits a moment for their first lists, so that
// post-start hooks need not poll for them. Call it when the store can be read, before
// Run and before the first write.
func (s *Server) FillCaches(ctx context.Context) { s.caches.fill(ctx) }

// Run serves until ctx ends and the requests have been drained. Requests that take
// longer than the grace are answered with an error. It calls ready when the bootstrap
// objects are written and all checks of /readyz but processCheck succeed: the controllers
// can start then. It may be called once.
func (s *Server) Run(ctx context.Context, ready func()) error {
	serving, ctx := errgroup.WithContext(ctx)
	failed := make(chan error, 1)
	err := kube.GuardHooks(ctx, s.server, func(err error) {
		select {
		case failed <- err:
		default: // another one has failed
		}
	})
	if err != nil {
		return err
	}
	serving.Go(func() error {
		select {
		case err := <-failed:
			return err
		case err := <-s.listener.Failed():
			return fmt.Errorf("the listener %s accepts no more connections; only a stop may close it: %w",
				s.listener.Addr(), err)
		case <-ctx.Done():
			return nil
		}
	})
	serving.Go(func() error {
		if err := s.serve(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		return errors.New("the API server stopped serving")
	})
	serving.Go(func() error {
		if err := s.writeBootstrap(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // a stop during the start, or the error of serve
			}
			return err
		}
		ready()
		return nil
	})
	return serving.Wait()
}

func (s *Server) serve(ctx context.Context) error {
	s.listener.MarkServed()
	defer s.loopback.Stop()
	defer s.caches.stop() // the post-start hooks may not have run
	ended := make(chan struct{})
	var draining sync.WaitGroup
	draining.Go(func() { s.endDrain(ctx, ended) })
	err := s.run(ctx)
	close(ended)
	draining.Wait()
	return err
}

// endDrain ends the requests in flight when the grace after the end of ctx is over. It
// returns early if the server has stopped.
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

// Discard releases the resources of a server that was never run, or that [New] could not complete.
func (s *Server) Discard() {
	s.loopback.Stop()
	s.drain.end()
	if s.caches != nil {
		s.caches.stop()
	}
	if s.server != nil {
		s.server.Destroy()
	}
}

// Loopback returns the client configuration for this process. Its requests call the
// handler chain without a connection, as system:masters.
func (s *Server) Loopback() *rest.Config { return rest.CopyConfig(s.server.LoopbackClientConfig) }

// Informers returns the informers that the admission plugins and authorizers use, and by
// ForResource also the aggregator's, so that the process has one cache for each type.
func (s *Server) Informers() informers.SharedInformerFactory {
	return allInformers{s.informers.SharedInformerFactory, s.registrations}
}

// Handle serves a path outside of the Kubernetes API, and those below if it ends with /. Requests
// are authenticated, and authorized as a non-resource URL. Call it before Run.
func (s *Server) Handle(path string, handler http.Handler) {
	if mux := s.server.Handler.NonGoRestfulMux; strings.HasSuffix(path, "/") {
		mux.HandlePrefix(path, handler)
	} else {
		mux.Handle(path, handler)
	}
}

// Serves reports whether the resource of a built-in API is enabled.
func (s *Server) Serves(resource schema.GroupVersionResource) bool {
	return s.resources.ResourceEnabled(resource)
}

// AfterWrites calls f when the requests in flight that may create objects in the
// namespace have ended. f must not block.
func (s *Server) AfterWrites(namespace string, f func()) { s.writes.afterWrites(namespace, f) }

// RBAC reports whether RBAC is one of the authorizers.
func (s *Server) RBAC() bool { return s.rbac }

// bootstrapConfig is Loopback for the bootstrap user, whose writes bypass admission.
func (s *Server) bootstrapConfig() *rest.Config {
	config := s.Loopback()
	config.BearerToken = string(s.bootstrap)
	return rest.AddUserAgent(config, "bootstrap")
}

// CustomTypes counts the types that CRDs define.
func (s *Server) CustomTypes(ctx context.Context) (crds.Types, error) { return s.crds.Types(ctx) }

// errStopping is the error of what a stop ends.
var errStopping = errors.New("the server is stopping")

// drain ends the requests that are still in flight when the grace of a stop is over:
// upstream's filter of timeouts answers those without a response with 504. Upstream waits
// for them until their own timeout, a minute.
type drain struct {
	graceOver context.Context // ends when the grace is over
	end       context.CancelFunc
}

func newDrain() *drain {
	d := &drain{}
	d.graceOver, d.end = context.WithCancel(context.Background())
	return d
}

// Initialize implements [admission.PluginInitializer]. The plugins end with the last requests, also in
// a server that never ran, which does not give upstream's signal.
func (d *drain) Initialize(plugin admission.Interface) {
	if ends, ok := plugin.(initializer.WantsDrainedNotification); ok {
		ends.SetDrainedNotification(d.graceOver.Done())
	}
}

// endAfterGrace wraps the whole handler chain.
func (d *drain) endAfterGrace(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(d.graceOver, func() { cancel(errStopping) })()
		chain.ServeHTTP(w, r.WithContext(ctx))
	})
}
