package apiserver

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// shutdownTimeout bounds how long connections may take to close once their
// requests have been drained. Nothing is lost with a connection that has no
// request, and HTTP/2 takes a second to say goodbye on each. Upstream's bound
// is the request timeout, a minute.
const shutdownTimeout = 100 * time.Millisecond

// Server is the chain, ready to run.
type Server struct {
	run         func(ctx context.Context) error
	server      *genericapiserver.GenericAPIServer
	informers   informers.SharedInformerFactory
	resources   *serverstorage.ResourceConfig
	crds        cache.SharedIndexInformer
	apiServices cache.SharedIndexInformer
}

// Run serves until ctx ends and the requests have been drained. It may be
// called once.
func (s *Server) Run(ctx context.Context) error { return s.run(ctx) }

// Discard gives back what New has made, of a server that was never run.
func (s *Server) Discard() { s.server.Destroy() }

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

// Remote says whether an APIService hands the group version to another server.
func (s *Server) Remote(gv schema.GroupVersion) bool {
	obj, exists, err := s.apiServices.GetStore().GetByKey(gv.Version + "." + gv.Group)
	if err != nil || !exists {
		return false
	}
	service, ok := obj.(*apiregistrationv1.APIService)
	return ok && service.Spec.Service != nil
}

// OnChange calls f after CRDs or APIServices have changed, which is when the
// served types may have.
func (s *Server) OnChange(f func()) {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { f() },
		UpdateFunc: func(previous, current any) { notifyChanged(previous, current, f) },
		DeleteFunc: func(any) { f() },
	}
	for _, informer := range []cache.SharedIndexInformer{s.crds, s.apiServices} {
		// The error says that the informer has stopped: nothing changes any more.
		_, _ = informer.AddEventHandler(handler)
	}
}

// notifyChanged skips the informers' resyncs.
func notifyChanged(previous, current any, f func()) {
	before, errBefore := meta.Accessor(previous)
	after, errAfter := meta.Accessor(current)
	if errBefore != nil || errAfter != nil || before.GetResourceVersion() != after.GetResourceVersion() {
		f()
	}
}
