package kube

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/filters"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	"k8s.io/kubernetes/pkg/kubeapiserver"
)

// Upstream fact: how kube-apiserver applies its options
//
// Mirrors: k8s.io/kubernetes/pkg/controlplane/apiserver.BuildGenericConfig
//   k8s.io/kubernetes/pkg/controlplane/apiserver.BuildAuthorizer
// Why: BuildGenericConfig makes a loopback client with a certificate of its
//   own and dials etcd at its address.
// Gain: no certificate is made at a start (bench, start), and etcd needs no port.
// Breaks: an option has no effect, or is applied in another order.
//   TestDifferencesFromKubeAPIServer compares the two configurations.

// informerResync is that of kube-apiserver's own informers.
const informerResync = 10 * time.Minute

// IsLongRunning reports whether kube-apiserver has no deadline for a request. The subresources are
// those of aggregated API servers.
var IsLongRunning = filters.BasicLongRunningRequestCheck(
	sets.NewString("watch", "proxy"),
	sets.NewString("attach", "exec", "proxy", "log", "portforward"),
)

// GenericOptions are applied to the configuration that the API servers of a chain share,
// as BuildGenericConfig does, with a client that calls the server in its process.
type GenericOptions struct {
	Options     options.CompletedOptions
	Resources   *serverstorage.ResourceConfig
	Loopback    *rest.Config
	Definitions openapicommon.GetOpenAPIDefinitions
	// Schemes have types of Definitions besides those of Kubernetes.
	Schemes []*runtime.Scheme
	// Transform is that of the informers.
	Transform cache.TransformFunc
	// Prepare is called before the first option is applied.
	Prepare func(*genericapiserver.Config, kubernetes.Interface)
	// Stored is called after the storage options were applied, Authenticated after those
	// of authentication.
	Stored        func(*serverstorage.DefaultStorageFactory, *genericapiserver.Config)
	Authenticated func(*genericapiserver.Config) error
}

// AppliedOptions is the result of [GenericOptions.Apply].
type AppliedOptions struct {
	Config    *genericapiserver.Config
	Informers informers.SharedInformerFactory
	Stores    *serverstorage.DefaultStorageFactory
	// RBAC reports whether RBAC is an authorizer.
	RBAC bool
}

// Apply applies the options.
func (g GenericOptions) Apply() (*AppliedOptions, error) {
	s, c := g.Options, genericapiserver.NewConfig(legacyscheme.Codecs)
	c.MergedResourceConfig, c.LoopbackClientConfig, c.Flagz = g.Resources, g.Loopback, s.Flagz
	client, err := kubernetes.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("make the loopback client: %w", err)
	}
	reading := rest.CopyConfig(c.LoopbackClientConfig)
	reading.Wrap(func(next http.RoundTripper) http.RoundTripper { return cachedStart{next} })
	reader, err := kubernetes.NewForConfig(reading)
	if err != nil {
		return nil, fmt.Errorf("make the client of the informers: %w", err)
	}
	a := &AppliedOptions{Config: c, Informers: informers.NewSharedInformerFactoryWithOptions(reader, informerResync,
		informers.WithTransform(g.Transform))}
	g.Prepare(c, client)
	ctx := wait.ContextForChannel(c.DrainedNotify())
	for _, step := range []struct {
		name  string
		apply func() error
	}{
		{"run", func() error { return s.GenericServerRunOptions.ApplyTo(c) }},
		{"serving", func() error { return s.SecureServing.SecureServingOptions.ApplyTo(&c.SecureServing) }},
		{"feature", func() error { return s.Features.ApplyTo(c, client, a.Informers) }},
		{"API enablement", func() error { return s.APIEnablement.ApplyTo(c, c.MergedResourceConfig, legacyscheme.Scheme) }},
		{"egress", func() error { return s.EgressSelector.ApplyTo(c) }},
		{"tracing", func() error { return g.applyTracing(c) }},
		{"OpenAPI", func() error { g.applyOpenAPI(c); return nil }},
		{"storage", func() (err error) { a.Stores, err = g.applyStorage(c); return err }},
		{"authentication", func() error {
			return s.Authentication.ApplyTo(ctx, &c.Authentication, c.SecureServing, c.EgressSelector, c.OpenAPIConfig,
				c.OpenAPIV3Config, client, a.Informers, c.APIServerID)
		}},
		{"authentication", func() error { return g.Authenticated(c) }},
		{"authorization", func() (err error) {
			c.Authorization.Authorizer, c.RuleResolver, a.RBAC, err = controlplane.BuildAuthorizer(ctx, s, c.EgressSelector,
				c.APIServerID, a.Informers)
			return err
		}},
		{"audit", func() error { return s.Audit.ApplyTo(c) }},
	} {
		if err := step.apply(); err != nil {
			return nil, fmt.Errorf("apply the %s options: %w", step.name, err)
		}
	}
	return a, nil
}

func (g GenericOptions) applyTracing(c *genericapiserver.Config) error {
	transport := &g.Options.Etcd.StorageConfig.Transport
	transport.TracerProvider = noop.NewTracerProvider()
	if !utilfeature.DefaultFeatureGate.Enabled(features.APIServerTracing) {
		return nil
	}
	if err := g.Options.Traces.ApplyTo(c.EgressSelector, c); err != nil {
		return err
	}
	c.TracerProvider = BoundedShutdown(c.TracerProvider)
	transport.TracerProvider = c.TracerProvider
	return nil
}

var (
	kubernetesSchemes = []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	kubernetesNamer   = sync.OnceValue(
		func() *openapinamer.DefinitionNamer { return openapinamer.NewDefinitionNamer(kubernetesSchemes...) })
)

func (g GenericOptions) applyOpenAPI(c *genericapiserver.Config) {
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(g.Definitions)
	namer := kubernetesNamer()
	if len(g.Schemes) > 0 {
		namer = openapinamer.NewDefinitionNamer(append(slices.Clone(kubernetesSchemes), g.Schemes...)...)
	}
	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	// A server keeps no copy of the definitions: builders ask for them, and the one that sets this
	// function would stay in it.
	c.OpenAPIV3Config.Definitions = nil
	c.OpenAPIV3Config.GetOperationIDAndTagsFromRoute = func(route openapicommon.Route) (string, []string, error) {
		return openapinamer.GetOperationIDAndTags(route.(*restfuladapter.RouteAdapter).Route)
	}
	if len(g.Schemes) > 0 { // types of programs may have no OpenAPIModelName
		friendly := func(name string) (string, spec.Extensions) {
			if strings.Contains(name, "/") {
				name = util.ToRESTFriendlyName(name)
			}
			return namer.GetDefinitionName(name)
		}
		c.OpenAPIConfig.GetDefinitionName, c.OpenAPIV3Config.GetDefinitionName = friendly, friendly
	}
	c.OpenAPIConfig.Info.Title, c.OpenAPIV3Config.Info.Title = "Kubernetes", "Kubernetes"
}

func (g GenericOptions) applyStorage(c *genericapiserver.Config) (*serverstorage.DefaultStorageFactory, error) {
	factoryConfig := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(c.EffectiveVersion)
	factoryConfig.APIResourceConfig = c.MergedResourceConfig
	factoryConfig.DefaultResourceEncoding.SetEffectiveVersion(c.EffectiveVersion)
	factory, err := factoryConfig.Complete(g.Options.Etcd).New()
	if err != nil {
		return nil, err
	}
	factory.StorageConfig.StorageObjectCountTracker = c.StorageObjectCountTracker
	if err := g.Options.Etcd.ApplyWithStorageFactoryTo(factory, c); err != nil {
		return nil, err
	}
	g.Stored(factory, c)
	return factory, nil
}

// cachedStart lets a watch that begins with a list take that from the watch cache as it is, as
// informers without such watches do. Otherwise the cache waits until it has the last write of any
// type, which takes up to 0.1 s.
type cachedStart struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (c cachedStart) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") == "true" && query.Get("resourceVersion") == "" {
		query.Set("resourceVersion", "0")
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	return c.next.RoundTrip(r)
}
