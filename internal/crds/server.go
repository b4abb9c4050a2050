package crds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// Upstream fact: how the apiextensions server is assembled
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.completedConfig.New
//   k8s.io/apiextensions-apiserver/pkg/apiserver.NewCustomResourceDefinitionHandler
// Why: its informer, and with it each CRD with its schemas, stays in memory.
// Gain: memory follows the types in use, not those installed.
// Breaks: a controller, a hook or a path of the apiextensions server is
//   missing.

// Config configures the server.
type Config struct {
	// Upstream is the configuration of upstream's server.
	Upstream *apiextensionsapiserver.Config
	// Alone reports whether no other API server uses the store at this moment.
	Alone func(context.Context) (bool, error)
	// Discovery is the manager of aggregated discovery; it must also be
	// Upstream.GenericConfig.AggregatedDiscoveryGroupManager. It may be nil.
	Discovery *Discovery
	// Populated reports whether objects of a custom resource are stored.
	Populated func(context.Context, schema.GroupResource) (bool, error)
	// Population has the types without objects.
	Population *storage.Population
}

// Server serves CRDs and custom resources. It is safe for concurrent use.
type Server struct {
	// GenericAPIServer is the server in the chain.
	GenericAPIServer *genericapiserver.GenericAPIServer

	informer    lightInformer
	catalog     *catalog
	definitions *definitions
	front       *front
	population  *storage.Population
	stores      *stores
	// filled reports whether the catalog has the first list of the informer.
	filled  cache.ResourceEventHandlerRegistration
	started sync.Once
}

// New assembles the server before delegate. It mirrors completedConfig.New of
// k8s.io/apiextensions-apiserver/pkg/apiserver.
func New(config Config, delegate genericapiserver.DelegationTarget) (*Server, error) {
	generic := config.Upstream.GenericConfig.Complete()
	generic.EnableDiscovery = false
	server, err := generic.New("apiextensions-apiserver", delegate)
	if err != nil {
		return nil, fmt.Errorf("create the generic server: %w", err)
	}
	s := &Server{GenericAPIServer: server, catalog: newCatalog(), population: config.Population}
	// Until all CRDs have been read, a path that is not found gets a 503, not a 404.
	synced := make(chan struct{})
	if err := server.RegisterMuxAndDiscoveryCompleteSignal("CRDInformerHasNotSynced", synced); err != nil {
		return nil, err
	}
	group, err := s.installAPI(config, generic)
	if err != nil {
		return nil, err
	}
	handler := delegate.UnprotectedHandler()
	if handler == nil {
		handler = http.NotFoundHandler()
	}
	crdClient, err := clientset.NewForConfig(server.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("create the client for CustomResourceDefinitions: %w", err)
	}
	controllers, err := s.serve(config, generic, group, handler, crdClient)
	if err != nil {
		return nil, err
	}
	return s, s.addHooks(controllers, synced)
}

// installAPI serves CustomResourceDefinitions.
func (s *Server) installAPI(config Config, generic genericapiserver.CompletedConfig) (*genericapiserver.APIGroupInfo, error) {
	group := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, apiextensionsapiserver.Scheme, metav1.ParameterCodec, apiextensionsapiserver.Codecs)
	getter, err := newProtobufStorage(generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	store, err := customresourcedefinition.NewREST(apiextensionsapiserver.Scheme, getter)
	if err != nil {
		return nil, fmt.Errorf("make the storage of CustomResourceDefinitions: %w", err)
	}
	if s.definitions, err = newDefinitions(getter, store); err != nil {
		return nil, err
	}
	s.informer = newLightInformer(s.definitions.source())
	if s.filled, err = s.informer.Informer().AddEventHandler(s.catalog); err != nil {
		return nil, fmt.Errorf("follow CustomResourceDefinitions: %w", err)
	}
	registry := &registry{REST: store, metadata: s.definitions.metadataRegistry(store.Store), whole: s.definitions.reader, catalog: s.catalog, alone: config.Alone, names: newNames(s.catalog, s.exists, s.filled.HasSynced)}
	store.CreateStrategy = establishing{store.CreateStrategy}
	if generic.MergedResourceConfig.ResourceEnabled(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")) {
		group.VersionedResourcesStorageMap[apiextensionsv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
			"customresourcedefinitions":        registry,
			"customresourcedefinitions/status": &statusRegistry{customresourcedefinition.NewStatusREST(apiextensionsapiserver.Scheme, store), registry},
		}
	}
	if err := s.GenericAPIServer.InstallAPIGroup(&group); err != nil {
		return nil, fmt.Errorf("install the API of CustomResourceDefinitions: %w", err)
	}
	return &group, nil
}

func (s *Server) exists(ctx context.Context, name string) (bool, error) {
	_, err := s.definitions.getMetadata(ctx, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// serve serves custom resources and their discovery, and makes the controllers.
func (s *Server) serve(config Config, generic genericapiserver.CompletedConfig, group *genericapiserver.APIGroupInfo, delegate http.Handler, crdClient clientset.Interface) (*controllers, error) {
	extra := config.Upstream.ExtraConfig
	s.stores = newStores(extra.CRDRESTOptionsGetter)
	groups := &groups{catalog: s.catalog, delegate: delegate, dirty: map[schema.GroupVersion]bool{}}
	s.front = &front{
		catalog: s.catalog, definitions: s.definitions, discovery: groups, delegate: delegate,
		alone: config.Alone, populated: config.Populated, types: map[string]*servedType{},
	}
	s.front.empty = &emptyTypes{
		front: s.front, population: config.Population, minTimeout: time.Duration(generic.MinRequestTimeout) * time.Second,
	}
	controllers, establishing, err := s.newControllers(crdClient.ApiextensionsV1(), config.Alone)
	if err != nil {
		return nil, err
	}
	// The front answers the requests of these discovery handlers.
	handler, err := apiextensionsapiserver.NewCustomResourceDefinitionHandler(nil, nil, handlerInformer{front: s.front}, delegate,
		s.stores, generic.AdmissionControl, establishing, extra.ServiceResolver, extra.AuthResolverWrapper, extra.MasterCount,
		s.GenericAPIServer.Authorizer, generic.RequestTimeout, time.Duration(generic.MinRequestTimeout)*time.Second,
		group.StaticOpenAPISpec, generic.MaxRequestBodyBytes)
	if err != nil {
		return nil, fmt.Errorf("create the handler of custom resources: %w", err)
	}
	if s.front.events == nil {
		return nil, errors.New("create the handler of custom resources: it does not follow CustomResourceDefinitions")
	}
	s.front.handler = handler
	s.catalog.listen(s.front.changed)
	s.catalog.listen(s.front.empty.changes.changed)
	if config.Discovery != nil {
		groups.manager = config.Discovery.WithSource(aggregated.CRDSource)
		config.Discovery.groups = groups
		s.catalog.listen(groups.changed)
	}
	mux := s.GenericAPIServer.Handler.NonGoRestfulMux
	mux.Handle("/apis", s.front)
	mux.HandlePrefix("/apis/", s.front)
	s.GenericAPIServer.RegisterDestroyFunc(s.stores.closeAll)
	s.GenericAPIServer.RegisterDestroyFunc(s.definitions.destroy)
	return controllers, nil
}

// addHooks starts the informer and the controllers with the server, which is healthy
// when all CRDs have been read.
func (s *Server) addHooks(controllers *controllers, synced chan struct{}) error {
	hooks := []struct {
		name string
		run  genericapiserver.PostStartHookFunc
	}{
		{"start-apiextensions-informers", func(hook genericapiserver.PostStartHookContext) error {
			s.Start(hook.Done())
			return nil
		}},
		{"start-apiextensions-controllers", func(hook genericapiserver.PostStartHookContext) error {
			for _, run := range controllers.run {
				go run(hook)
			}
			return nil
		}},
		{"crd-informer-synced", func(hook genericapiserver.PostStartHookContext) error {
			if cache.WaitFor(hook, "", s.filled.HasSyncedChecker()) {
				close(synced)
			}
			return nil
		}},
	}
	for _, hook := range hooks {
		if err := s.GenericAPIServer.AddPostStartHook(hook.name, hook.run); err != nil {
			return fmt.Errorf("add the hook %s: %w", hook.name, err)
		}
	}
	return nil
}

// Definitions is the informer of all CRDs. What it holds has no schemas, printer
// columns, selectable fields, managed fields or last applied configuration.
func (s *Server) Definitions() informers.CustomResourceDefinitionInformer { return s.informer }

// List returns all CRDs, without what [Server.Definitions] leaves out. They are
// read-only. What this server has written is included as soon as the write is
// answered.
func (s *Server) List() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	return s.catalog.all(), nil
}

// OnChange calls changed after each change of a CRD, until remove is called. A
// change that was written through this server is served already, and not yet
// answered. changed must not block.
func (s *Server) OnChange(changed func()) (remove func()) {
	return s.catalog.listen(func(_, _ *apiextensionsv1.CustomResourceDefinition) { changed() })
}

// Changes returns the number of changes of CRDs that [Server.List] includes at least.
func (s *Server) Changes() uint64 { return s.catalog.notified.Load() }

// Get reads a whole CRD from the store. The error for an unknown name is an API
// status.
func (s *Server) Get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	return s.definitions.get(ctx, name)
}

// Start starts the informer once; it runs until stop is closed.
func (s *Server) Start(stop <-chan struct{}) {
	s.started.Do(func() { go s.informer.Informer().Run(stop) })
}

// WaitForCacheSync waits until all CRDs have been read or stop is closed.
func (s *Server) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return map[reflect.Type]bool{
		reflect.TypeFor[*apiextensionsv1.CustomResourceDefinition](): cache.WaitFor(wait.ContextForChannel(stop), "", s.filled.HasSyncedChecker()),
	}
}
