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
	client "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/apiapproval"
	"k8s.io/apiextensions-apiserver/pkg/controller/establish"
	"k8s.io/apiextensions-apiserver/pkg/controller/finalizer"
	"k8s.io/apiextensions-apiserver/pkg/controller/status"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// Config configures the server.
type Config struct {
	// Upstream is the configuration of upstream's server.
	Upstream *apiextensionsapiserver.Config
	// Alone reports whether no other API server uses the store at this moment.
	Alone func(context.Context) (bool, error)
	// Discovery is the manager of aggregated discovery; it must also be
	// Upstream.GenericConfig.AggregatedDiscoveryGroupManager.
	Discovery *Discovery
	// Populated reports whether objects of a custom resource are stored.
	Populated func(context.Context, schema.GroupResource) (bool, error)
	// Population has the types without objects.
	Population *storage.Population
	// IdleTypeBytes bounds the estimated memory of types without requests; 0 is without bound.
	IdleTypeBytes int64
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
	// filled reports whether the catalog has the first list of the informer.
	filled  cache.ResourceEventHandlerRegistration
	started sync.Once
}

// New assembles the server before delegate.
func New(config Config, delegate genericapiserver.DelegationTarget) (*Server, error) {
	assembly, err := customresources.NewAssembly(config.Upstream, delegate)
	if err != nil {
		return nil, err
	}
	generic, server := assembly.Generic, assembly.Server
	s := &Server{GenericAPIServer: server, catalog: newCatalog(), population: config.Population}
	group, err := s.installAPI(config, generic)
	if err != nil {
		return nil, err
	}
	crdClient, err := clientset.NewForConfig(server.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("create the client for CustomResourceDefinitions: %w", err)
	}
	controllers, err := s.serve(config, assembly, group, delegate.UnprotectedHandler(), crdClient)
	if err != nil {
		return nil, err
	}
	return s, assembly.AddHooks(s.StartWithContext, controllers, s.filled.HasSyncedChecker())
}

// installAPI serves CustomResourceDefinitions.
func (s *Server) installAPI(config Config,
	generic genericapiserver.CompletedConfig) (*genericapiserver.APIGroupInfo, error) {
	group := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, apiextensionsapiserver.Scheme,
		metav1.ParameterCodec, apiextensionsapiserver.Codecs)
	getter, err := customresources.NewProtobufStorage(generic.RESTOptionsGetter)
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
	registry := &registry{
		REST: store, metadata: s.definitions.metadataRegistry(store.Store), whole: s.definitions.reader,
		catalog: s.catalog, alone: config.Alone, names: newNames(s.catalog, s.exists, s.filled.HasSynced),
	}
	store.CreateStrategy = establishing{store.CreateStrategy}
	group.VersionedResourcesStorageMap[apiextensionsv1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"customresourcedefinitions": registry,
		"customresourcedefinitions/status": &statusRegistry{
			customresourcedefinition.NewStatusREST(apiextensionsapiserver.Scheme, store), registry,
		},
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
func (s *Server) serve(config Config, assembly *customresources.Assembly, group *genericapiserver.APIGroupInfo,
	delegate http.Handler, crdClient clientset.Interface) ([]func(context.Context), error) {
	groups := &groups{catalog: s.catalog, delegate: delegate, dirty: map[schema.GroupVersion]bool{}}
	s.front = &front{
		catalog: s.catalog, definitions: s.definitions, discovery: groups, delegate: delegate,
		alone: config.Alone, populated: config.Populated, idleBytes: config.IdleTypeBytes,
		types: map[string]*servedType{}, changedTypes: make(chan struct{}, 1),
	}
	s.front.empty = &emptyTypes{
		front: s.front, population: config.Population, bookmarkInterval: customresources.BookmarkInterval,
		minTimeout: time.Duration(assembly.Generic.MinRequestTimeout) * time.Second,
	}
	controllers, establishing, err := s.newControllers(crdClient.ApiextensionsV1(), config.Alone)
	if err != nil {
		return nil, err
	}
	handler, err := assembly.NewHandler(s.front.informer(), delegate, config.Upstream.ExtraConfig.CRDRESTOptionsGetter,
		establishing, group)
	if err != nil {
		return nil, err
	}
	if s.front.events == nil {
		return nil, errors.New("create the handler of custom resources: it does not follow CustomResourceDefinitions")
	}
	s.front.handler = handler
	s.catalog.listen(s.front.changed)
	s.catalog.listen(s.front.empty.changes.changed)
	groups.manager = config.Discovery.WithSource(aggregated.CRDSource)
	config.Discovery.groups = groups
	s.OnVersions(groups.changed)
	mux := s.GenericAPIServer.Handler.NonGoRestfulMux
	mux.Handle("/apis", s.front)
	mux.HandlePrefix("/apis/", s.front)
	s.GenericAPIServer.RegisterDestroyFunc(s.definitions.destroy)
	return controllers, nil
}

// Definitions is the informer of all CRDs. What it holds has no schemas, printer
// columns, selectable fields, managed fields or last applied configuration.
func (s *Server) Definitions() informers.CustomResourceDefinitionInformer { return s.informer }

// List returns all CRDs, without what [Server.Definitions] leaves out. They are
// read-only. What this server has written is included as soon as the write is
// answered.
func (s *Server) List() []*apiextensionsv1.CustomResourceDefinition { return s.catalog.all() }

// OnChange calls changed after each change of a CRD, until remove is called. A
// change that was written through this server is served already, and not yet
// answered. changed must not block.
func (s *Server) OnChange(changed func()) (remove func()) {
	return s.catalog.listen(func(_, _ *apiextensionsv1.CustomResourceDefinition) { changed() })
}

// Names returns the names of all CRDs, as [Server.List].
func (s *Server) Names() []string {
	crds := s.catalog.all()
	names := make([]string, len(crds))
	for i, crd := range crds {
		names[i] = crd.Name
	}
	return names
}

// Changes returns the number of changes of CRDs that [Server.List] includes at least.
func (s *Server) Changes() uint64 { return s.catalog.notified.Load() }

// Get reads a whole CRD from the store. The error for an unknown name is an API
// status.
func (s *Server) Get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	return s.definitions.get(ctx, name)
}

// StartWithContext starts the informer once; it runs until ctx ends.
func (s *Server) StartWithContext(ctx context.Context) {
	s.started.Do(func() { go s.informer.Informer().RunWithContext(ctx) })
}

// WaitForCacheSync waits until all CRDs have been read or stop is closed.
func (s *Server) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return map[reflect.Type]bool{
		reflect.TypeFor[*apiextensionsv1.CustomResourceDefinition](): cache.WaitFor(wait.ContextForChannel(stop), "",
			s.filled.HasSyncedChecker()),
	}
}

// workers is the number of workers that upstream gives to each controller that has
// several.
const workers = 5

// newControllers returns upstream's controllers, over light CRDs.
func (s *Server) newControllers(crds client.CustomResourceDefinitionsGetter,
	alone func(context.Context) (bool, error)) ([]func(context.Context), *establish.EstablishingController, error) {
	crds = customresources.StatusClient{CustomResourceDefinitionsGetter: crds, Metadata: s.definitions.getMetadata,
		Lighten: lighten}
	informer := s.informer
	naming := status.NewNamingConditionController(klog.Background(), informer, crds)
	establishing := establish.NewEstablishingController(informer, crds)
	approval := apiapproval.NewKubernetesAPIApprovalPolicyConformantConditionController(informer, crds)
	finalizing := finalizer.NewCRDFinalizer(informer, crds, s.front)

	if err := customresources.EstablishAccepted(informer, establishing,
		func() time.Duration { return delayOf(alone) }); err != nil {
		return nil, nil, err
	}
	return []func(context.Context){
		naming.RunWithContext,
		establishing.RunWithContext,
		func(ctx context.Context) { approval.RunWithContext(workers, ctx) },
		func(ctx context.Context) { finalizing.RunWithContext(workers, ctx) },
		s.front.releaseIdle,
	}, establishing, nil
}

// delayOf returns [customresources.EstablishDelay], or 0 for a single server.
func delayOf(alone func(context.Context) (bool, error)) time.Duration {
	if certainlyAlone(alone) {
		return 0
	}
	return customresources.EstablishDelay
}
