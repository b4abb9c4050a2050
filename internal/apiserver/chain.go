package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/kubernetes/pkg/apis/storagemigration"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/crds/apiservices"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// embeddedEndpoint is the address of etcd in upstream's options. No code dials it: all
// stores use the shared connection.
const embeddedEndpoint = "http://kube-hyper-mini.invalid:2379"

// processCheck is the name of the check of Config.NotReady in /readyz.
const processCheck = "kube-hyper-mini"

// registrationHook starts the registration of custom resources.
const registrationHook = "crd-apiservices"

// Config has what [New] needs besides the options.
type Config struct {
	// Listener is served on, and closed by the server.
	Listener *Listener
	// Storage outlives the server.
	Storage *storage.Storage
	// Files are the certificates and keys.
	Files Files
	// TokenKeys sign and verify service account tokens.
	TokenKeys *TokenKeys
	// Revoked reports whether a client's certificate is refused.
	Revoked func(*x509.Certificate) bool
	// Endpoints resolves `service:` references to addresses.
	Endpoints *endpoints.Resolver
	// Shared means that other API servers may use the same store, now or later.
	Shared bool
	// Alone reports whether no other API server uses the store at this moment.
	Alone func(context.Context) (bool, error)
	// NotReady returns why the process is not ready, or nil. It is the check
	// processCheck of /readyz; nil for no check.
	NotReady func() error
	// Metrics are served besides those of the API servers and of etcd.
	Metrics []prometheus.Collector
	// Extensions are what a program adds.
	Extensions Extensions
	Log        *slog.Logger
}

// builder has what the steps of New share. They fill the Server.
type builder struct {
	*Server
	config    Config
	options   options.CompletedOptions
	settings  Settings
	generic   *genericapiserver.Config
	cached    storage.CachePolicy
	trusted   *trustedRequests // set with the aggregator
	discovery *crds.Discovery
	refused   error // of the program's handler
}

// New builds the chain. [Server.Run] serves it. ctx stops the goroutines that the options
// start.
func New(ctx context.Context, o *Options, cfg Config) (*Server, error) {
	completed, err := o.complete(ctx, cfg)
	if err != nil {
		return nil, err
	}
	cached, err := cachePolicy(completed.Etcd)
	if err != nil {
		return nil, err
	}
	drain := newDrain()
	b := &builder{
		config: cfg, options: completed, settings: o.settings, cached: cached,
		Server: &Server{
			listener: cfg.Listener, profile: o.profile, loopback: kube.NewLoopback(drain.graceOver), drain: drain,
			writes: newNamespaceWrites(), bootstrap: bootstrapToken(rand.Text()), storage: cfg.Storage, log: cfg.Log,
			namespaces: completed.SystemNamespaces, stopGrace: o.settings.Serving.StopGrace.Duration,
			files: certificateFiles{log: cfg.Log},
		},
	}
	native, err := b.nativeConfig(ctx)
	if err == nil {
		err = b.chain(native)
	}
	if err != nil {
		b.Discard()
		return nil, err
	}
	return b.Server, nil
}

// nativeConfig builds the configuration that the three servers share, and
// that of the native APIs.
func (b *builder) nativeConfig(ctx context.Context) (*configs, error) {
	factory, err := b.genericConfig()
	if err != nil {
		return nil, err
	}
	if err := b.configureRemote(); err != nil {
		return nil, err
	}
	native, initializers, err := controlplane.CreateConfig(b.options, b.generic, b.informers,
		factory, b.remote.webhooks, []admission.PluginInitializer{b.drain})
	if err != nil {
		return nil, fmt.Errorf("configure the native API server: %w", err)
	}
	b.files.take(b.generic, native)
	b.caches = newCaches(ctx, b.config.Storage.AwaitCaches)
	b.generic.AdmissionControl = b.admission(b.generic.AdmissionControl)
	return b.delegates(native, append([]admission.PluginInitializer{b.drain}, initializers...))
}

// store replaces the RESTOptionsGetter that the options have set in c.
func (b *builder) store(c *genericapiserver.Config) {
	c.RESTOptionsGetter = b.config.Storage.RESTOptionsGetter(c.RESTOptionsGetter, b.cached)
}

// addHealthChecks adds the check of the shared etcd connection, those of the profile, and
// processCheck.
func (b *builder) addHealthChecks() {
	b.profile.addHealthChecks(b.generic)
	kube.AddStoreChecks(b.generic, func(r *http.Request) error { return b.config.Storage.Health(r.Context()) })
	if b.config.NotReady != nil {
		b.generic.AddReadyzChecks(healthz.NamedCheck(processCheck, func(*http.Request) error { return b.config.NotReady() }))
	}
}

// newExtensions creates the innermost server, which serves CRDs and custom resources.
func (b *builder) newExtensions(c *configs) (*crds.Server, error) {
	notFound := notfoundhandler.New(b.generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	c.extensions.GenericConfig.SkipOpenAPIInstallation = true // buildOnFirstRequest installs it
	extensions, err := crds.New(crds.Config{
		Upstream: c.extensions, Alone: b.config.Alone, Discovery: b.discovery,
		Populated: func(ctx context.Context, resource schema.GroupResource) (bool, error) {
			return b.config.Storage.HasObjects(ctx, resource, "")
		},
		Population: b.config.Storage.Population(), IdleTypeBytes: b.settings.Limits.IdleTypes.Value(),
	}, genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("create the apiextensions server: %w", err)
	}
	buildOnFirstRequest(extensions.GenericAPIServer, kube.OpenAPIConfigs{V2: c.extensions.GenericConfig.OpenAPIConfig,
		V3: c.extensions.GenericConfig.OpenAPIV3Config})
	return extensions, nil
}

// newNative creates the server of the native APIs, which delegates to delegate.
func (b *builder) newNative(c *configs, delegate genericapiserver.DelegationTarget) (*controlplane.Server, error) {
	c.native.Generic.SkipOpenAPIInstallation = true // buildOnFirstRequest installs it
	native, err := b.profile.newServer(c.native, b.config.Shared, delegate)
	if err != nil {
		return nil, err
	}
	b.server = native.GenericAPIServer
	if err := b.installGroups(native); err != nil {
		return nil, err
	}
	buildOnFirstRequest(native.GenericAPIServer,
		kube.OpenAPIConfigs{V2: c.native.Generic.OpenAPIConfig, V3: c.native.Generic.OpenAPIV3Config})
	return native, nil
}

// newAggregator creates the outermost server, which delegates to delegate. It also returns
// the OpenAPI configuration, which the aggregator does not install.
func (b *builder) newAggregator(c *configs, delegate genericapiserver.DelegationTarget,
	extensions *crds.Server) (*aggregatorapiserver.APIAggregator, kube.OpenAPIConfigs, error) {
	c.aggregator.GenericConfig.DisabledPostStartHooks.Insert(kube.DiscoveryHook)
	restore := kube.LeaveOutCRDAPIServices(c.aggregator, string(b.bootstrap))
	aggregator, err := controlplane.CreateAggregatorServer(c.aggregator.Complete(), delegate,
		extensions.Definitions(), false,
		b.groupPriorities())
	if err == nil {
		err = kube.DropDiscovery(aggregator)
	}
	var openAPI kube.OpenAPIConfigs
	if err == nil {
		b.server = aggregator.GenericAPIServer
		openAPI, err = kube.TakeOpenAPI(aggregator)
	}
	if err != nil {
		return nil, openAPI, fmt.Errorf("create the aggregator: %w", err)
	}
	restore(aggregator)
	b.apiServices, b.apiServiceStores = b.builtInAPIServices(delegate), c.aggregator.GenericConfig.RESTOptionsGetter
	apiservices.ServeGroups(extensions, aggregator)
	known := aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Informer()
	clients, err := clientset.NewForConfig(b.generic.LoopbackClientConfig)
	if err != nil {
		return nil, openAPI, fmt.Errorf("create the client for APIServices: %w", err)
	}
	registrar, err := apiservices.NewRegistrar(extensions, known, clients, b.config.Log)
	if err != nil {
		return nil, openAPI, fmt.Errorf("prepare the registration of custom resources: %w", err)
	}
	return aggregator, openAPI, aggregator.GenericAPIServer.AddPostStartHook(registrationHook,
		func(hook genericapiserver.PostStartHookContext) error {
			go registrar.Run(hook)
			return nil
		})
}

// chain creates the servers, the innermost first.
func (b *builder) chain(c *configs) (err error) {
	defer PanicAsError(&err)
	extensions, err := b.newExtensions(c)
	if err != nil {
		return err
	}
	b.server = extensions.GenericAPIServer
	native, err := b.newNative(c, withoutPreparation(b.server, b.server.PrepareRun))
	if err != nil {
		return err
	}
	aggregator, openAPI, err := b.newAggregator(c,
		withoutPreparation(native.GenericAPIServer, native.GenericAPIServer.PrepareRun), extensions)
	if err != nil {
		return err
	}
	documents, err := b.followRemote(aggregator)
	if err != nil {
		return fmt.Errorf("prepare the controllers for remote API servers: %w", err)
	}
	b.openAPI = documents.openAPI
	aggregator.GenericAPIServer.ShutdownTimeout = shutdownTimeout
	if err := errors.Join(b.installMetrics(aggregator.GenericAPIServer, extensions),
		b.caches.endWith(aggregator.GenericAPIServer)); err != nil {
		return err
	}
	prepared, err := aggregator.PrepareRun()
	if err == nil {
		err = kube.DropRouteLeftovers(native.GenericAPIServer, extensions.GenericAPIServer, aggregator.GenericAPIServer)
	}
	if err != nil {
		return fmt.Errorf("prepare the aggregator: %w", err)
	}
	documents.addOpenAPI(aggregator.GenericAPIServer, openAPI, extensions, b.config.Log)
	b.loopback.Serve(aggregator.GenericAPIServer.Handler)
	b.caches.started = b.informers.settle
	b.caches.factories = []informerFactory{b.informers, extensions, aggregator.APIRegistrationInformers}
	b.run, b.crds = prepared.Run, extensions
	b.registrations, b.stores = aggregator.APIRegistrationInformers, b.generic.RESTOptionsGetter
	b.resources, b.encryption = b.generic.MergedResourceConfig, b.generic.ResourceTransformers
	b.Follower = servedtypes.Follower{
		CRDs:        extensions,
		APIServices: aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Informer(),
	}
	return b.refused
}

// unprepared is a delegate that is not prepared: that would install the paths of its health checks
// and its OpenAPI. All requests pass the aggregator, which has the checks of its delegates.
type unprepared[T any] struct {
	genericapiserver.DelegationTarget
}

// withoutPreparation wraps the delegate so that its PrepareRun does nothing. The second argument, its
// method PrepareRun, only infers T: that type is not exported.
func withoutPreparation[T any](delegate genericapiserver.DelegationTarget, _ func() T) unprepared[T] {
	return unprepared[T]{delegate}
}

// PrepareRun implements [genericapiserver.DelegationTarget].
func (unprepared[T]) PrepareRun() (none T) { return none }

// configs are the three servers' configurations.
type configs struct {
	native     *controlplane.Config
	extensions *apiextensionsapiserver.Config
	aggregator *aggregatorapiserver.Config
}

// uncachedGroups have few objects that seldom change, and that are read by this server's own
// informers: a watch cache of one type takes 9 goroutines and 0.15 MB.
var uncachedGroups = sets.New(admissionregistration.GroupName, certificates.GroupName, flowcontrol.GroupName,
	rbac.GroupName, storagemigration.GroupName)

// cachePolicy decides by the sizes of the options; a size for a type is the user's or that of
// [withDefaultCacheSizes].
func cachePolicy(etcd *genericoptions.EtcdOptions) (storage.CachePolicy, error) {
	sizes, err := genericoptions.ParseWatchCacheSizes(etcd.WatchCacheSizes)
	if err != nil {
		return nil, fmt.Errorf("read --watch-cache-sizes: %w", err)
	}
	enabled := etcd.EnableWatchCache
	return func(resource schema.GroupResource) bool {
		size, set := sizes[resource]
		if !set {
			return enabled && !uncachedGroups.Has(resource.Group)
		}
		return enabled && size != 0
	}, nil
}

// withDefaultCacheSizes adds the defaults to the configured watch cache sizes: events
// have no watch cache, as in kube-apiserver, and CustomResourceDefinitions have none,
// because they are large and seldom read. With APIServices, which follow them, each
// change would stay in the history of a watch cache, which shrinks with later changes only.
// Quotas are few, and leases are hardly listed or watched where there are no nodes.
func withDefaultCacheSizes(configured []string) ([]string, error) {
	sizes := kubeapiserver.DefaultWatchCacheSizes()
	for _, uncached := range []schema.GroupResource{apiextensionsv1.Resource("customresourcedefinitions"),
		apiregistrationv1.Resource("apiservices"), corev1.Resource("resourcequotas"), coordinationv1.Resource("leases")} {
		sizes[uncached] = 0
	}
	user, err := genericoptions.ParseWatchCacheSizes(configured)
	if err != nil {
		return nil, fmt.Errorf("read --watch-cache-sizes: %w", err)
	}
	for resource, size := range user {
		sizes[resource] = size
	}
	return genericoptions.WriteWatchCacheSizes(sizes)
}
