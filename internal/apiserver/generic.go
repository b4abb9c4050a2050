package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	"k8s.io/utils/clock"

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// Upstream fact: how kube-apiserver applies its options
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/apiserver.BuildGenericConfig
//   k8s.io/kubernetes/pkg/controlplane/apiserver.BuildAuthorizer
// Why: BuildGenericConfig makes a loopback client with a certificate of its
//   own and dials etcd at its address.
// Gain: a cold start of 0.27 s, and an etcd without a port (bench, start).
// Breaks: an option has no effect, or is applied in another order.
//   TestDifferencesFromKubeAPIServer compares the two configurations.

// informerResync is that of kube-apiserver's own informers.
const informerResync = 10 * time.Minute

// OwnPrefix begins the paths that this program serves beside the API.
const OwnPrefix = "/kube-hyper-mini/"

// upstreamLongRunning is kube-apiserver's (controlplane.BuildGenericConfig).
// The subresources are those of aggregated API servers.
var upstreamLongRunning = filters.BasicLongRunningRequestCheck(
	sets.NewString("watch", "proxy"),
	sets.NewString("attach", "exec", "proxy", "log", "portforward"),
)

// longRunning reports whether a request has no deadline: upstream's long-running
// requests, and the POST requests of this program's commands.
func longRunning(r *http.Request, info *request.RequestInfo) bool {
	return upstreamLongRunning(r, info) || r.Method == http.MethodPost && strings.HasPrefix(info.Path, OwnPrefix)
}

// genericConfig applies the options to the configuration that the three servers share.
// It replaces controlplane.BuildGenericConfig, which makes a loopback client that uses
// TLS, and dials etcd.
func (b *builder) genericConfig() (*serverstorage.DefaultStorageFactory, error) {
	s := b.options
	c := genericapiserver.NewConfig(legacyscheme.Codecs)
	c.MergedResourceConfig = b.profile.resources()
	c.LoopbackClientConfig = b.loopback.ClientConfig()
	b.discovery = crds.NewDiscovery(aggregated.NewResourceManager("apis"))
	c.AggregatedDiscoveryGroupManager = b.discovery
	c.LongRunningFunc = longRunning
	c.Flagz = s.Flagz
	c.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		gate := newListGate(b.config.Storage.Count, c.Serializer)
		return genericapiserver.DefaultBuildHandlerChain(b.writes.track(gate.limit(b.profile.handler(handler, c.Serializer))), c)
	}
	b.generic = c
	client, err := kubernetes.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("make the loopback client: %w", err)
	}
	b.informers = informers.NewSharedInformerFactoryWithOptions(client, informerResync, informers.WithTransform(servedtypes.DropManagedFields))

	s.Authentication.ServiceAccounts.OptionalTokenGetter = b.profile.tokenGetter(client)

	var factory *serverstorage.DefaultStorageFactory
	ctx := wait.ContextForChannel(c.DrainedNotify())
	for _, step := range []struct {
		name  string
		apply func() error
	}{
		{"run", func() error { return s.GenericServerRunOptions.ApplyTo(c) }},
		{"serving", func() error { return s.SecureServing.SecureServingOptions.ApplyTo(&c.SecureServing) }},
		{"feature", func() error { return s.Features.ApplyTo(c, client, b.informers) }},
		{"API enablement", func() error { return s.APIEnablement.ApplyTo(c, c.MergedResourceConfig, legacyscheme.Scheme) }},
		{"egress", func() error { return s.EgressSelector.ApplyTo(c) }},
		{"tracing", b.applyTracing},
		{"OpenAPI", b.applyOpenAPI},
		{"storage", func() (err error) { factory, err = b.applyStorage(); return err }},
		{"authentication", func() error {
			return s.Authentication.ApplyTo(ctx, &c.Authentication, c.SecureServing, c.EgressSelector, c.OpenAPIConfig, c.OpenAPIV3Config, client, b.informers, c.APIServerID)
		}},
		{"client certificates", func() error { b.cacheCertificates(c); return nil }},
		{"bootstrap", func() error { b.bootstrap.authenticate(c); return nil }},
		{"token issuers", func() error { explainIssuers(c, s.Authentication); return nil }},
		{"anonymous access", func() error { return allowAnonymousHealth(c, s.Authentication.AuthenticationConfigFile) }},
		{"revocation", func() error { b.refuseRevokedKeys(c); return nil }},
		{"authorization", func() error { return b.applyAuthorization(ctx) }},
		{"audit", func() error { return s.Audit.ApplyTo(c) }},
	} {
		if err := step.apply(); err != nil {
			return nil, fmt.Errorf("apply the %s options: %w", step.name, err)
		}
	}
	c.EffectiveVersion = builtVersion{c.EffectiveVersion}
	kube.DisableRBACHook(c) // kube.EnsureRBAC does the same work
	if !b.needsIdentityLease(c) {
		kube.DisableIdentityLease(c)
	}
	b.addHealthChecks()
	return factory, nil
}

// cacheCertificates keeps the verification of client certificates for a moment.
func (b *builder) cacheCertificates(c *genericapiserver.Config) {
	trusted := b.options.Authentication.ClientCert.CAContentProvider
	if trusted == nil {
		return
	}
	var userHeaders headerrequest.StringSliceProvider
	if proxy := c.Authentication.RequestHeaderConfig; proxy != nil {
		userHeaders = proxy.UsernameHeaders
	}
	c.Authentication.Authenticator = newCertificateCache(c.Authentication.Authenticator, trusted.CurrentCABundleContent, userHeaders, clock.RealClock{})
}

// refuseRevokedKeys refuses revoked client certificates, if there is a list of them.
func (b *builder) refuseRevokedKeys(c *genericapiserver.Config) {
	if b.config.Revoked != nil {
		c.Authentication.Authenticator = refuseRevoked(c.Authentication.Authenticator, b.config.Revoked)
	}
}

// needsIdentityLease reports whether other servers or the garbage collector of storage
// versions read the identity lease of this server. Otherwise upstream's controller is
// disabled: while it cannot write the lease, it delays the stop.
func (b *builder) needsIdentityLease(c *genericapiserver.Config) bool {
	isRead := b.config.Shared || utilfeature.DefaultFeatureGate.Enabled(features.StorageVersionAPI)
	return isRead && c.MergedResourceConfig.ResourceEnabled(coordinationv1.SchemeGroupVersion.WithResource("leases"))
}

func (b *builder) applyTracing() error {
	transport := &b.options.Etcd.StorageConfig.Transport
	transport.TracerProvider = noop.NewTracerProvider()
	if !utilfeature.DefaultFeatureGate.Enabled(features.APIServerTracing) {
		return nil
	}
	if err := b.options.Traces.ApplyTo(b.generic.EgressSelector, b.generic); err != nil {
		return err
	}
	b.generic.TracerProvider = kube.BoundedShutdown(b.generic.TracerProvider)
	transport.TracerProvider = b.generic.TracerProvider
	return nil
}

func (b *builder) applyOpenAPI() error {
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(b.profile.definitions())
	namer := openapinamer.NewDefinitionNamer([]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}...)
	b.generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	b.generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	b.generic.OpenAPIConfig.Info.Title, b.generic.OpenAPIV3Config.Info.Title = "Kubernetes", "Kubernetes"
	return nil
}

func (b *builder) applyStorage() (*serverstorage.DefaultStorageFactory, error) {
	c := b.generic
	factoryConfig := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(c.EffectiveVersion)
	factoryConfig.APIResourceConfig = c.MergedResourceConfig
	factoryConfig.DefaultResourceEncoding.SetEffectiveVersion(c.EffectiveVersion)
	factory, err := factoryConfig.Complete(b.options.Etcd).New()
	if err != nil {
		return nil, err
	}
	factory.StorageConfig.StorageObjectCountTracker = c.StorageObjectCountTracker
	if err := b.options.Etcd.ApplyWithStorageFactoryTo(factory, c); err != nil {
		return nil, err
	}
	b.profile.connectStores(factory, b.config.Storage.Dial(), b.external)
	b.store(c)
	return factory, nil
}

func (b *builder) applyAuthorization(ctx context.Context) error {
	authorizer, resolver, rbac, err := controlplane.BuildAuthorizer(ctx, b.options, b.generic.EgressSelector, b.generic.APIServerID, b.informers)
	if err != nil {
		return err
	}
	b.generic.Authorization.Authorizer, b.generic.RuleResolver, b.rbac = authorizer, resolver, rbac
	return nil
}
