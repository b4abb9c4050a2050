package apiserver

import (
	"errors"
	"fmt"
	"net/http"

	apiextensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
)

// delegates configures the apiextensions server and the aggregator.
func (b *builder) delegates(native *controlplane.Config, initializers []admission.PluginInitializer) (*configs, error) {
	native.ProxyTransport.DialContext = b.remote.dial // webhook clients and the aggregator take it from there
	authInfo := webhook.NewDefaultAuthenticationInfoResolverWrapper(native.ProxyTransport, b.generic.EgressSelector,
		b.generic.LoopbackClientConfig, b.generic.TracerProvider)
	// With more than one server, apiextensions holds a new CRD back for 5 s so
	// that the others have seen it (apiextensionsapiserver's MasterCount). While
	// this one is alone, crds establishes it before that.
	masters := 1
	if b.config.Shared {
		masters = 2
	}
	extensions, err := controlplane.CreateAPIExtensionsConfig(*native.Generic,
		native.VersionedInformers, initializers, b.options,
		masters, b.remote.webhooks, func(clients webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
			return limitAnswers(authInfo(clients))
		})
	if err != nil {
		return nil, fmt.Errorf("configure the apiextensions server: %w", err)
	}
	b.store(&extensions.GenericConfig.Config)
	etcdOptions := *b.options.Etcd
	etcdOptions.StorageConfig.Codec = nil // the getter makes one for each CRD
	extensions.ExtraConfig.CRDRESTOptionsGetter, err = b.config.Storage.CustomResourceGetter(
		apiextensionsoptions.NewCRDRESTOptionsGetter(etcdOptions, b.generic.ResourceTransformers,
			b.generic.StorageObjectCountTracker), b.cached)
	if err != nil {
		return nil, fmt.Errorf("configure the storage of custom resources: %w", err)
	}

	aggregator, err := controlplane.CreateAggregatorConfig(*native.Generic, b.options,
		native.VersionedInformers, b.remote.aggregator,
		native.ProxyTransport, native.PeerProxy, initializers)
	if err != nil {
		return nil, fmt.Errorf("configure the aggregator: %w", err)
	}
	b.store(&aggregator.GenericConfig.Config)
	b.wrapChain(&aggregator.GenericConfig.Config)
	// Upstream's controller needs Services and EndpointSlices, which are not served.
	// followRemote adds a controller that does not.
	aggregator.ExtraConfig.DisableRemoteAvailableConditionController = true
	return &configs{native: native, extensions: extensions, aggregator: aggregator}, nil
}

// wrapChain adds handlers around and inside of the handler chain of the aggregator,
// which all requests pass.
func (b *builder) wrapChain(c *genericapiserver.Config) {
	build := c.BuildHandlerChainFunc
	b.trusted = newTrustedRequests(&b.files, b.config.Revoked, b.options.Authentication.ClientCert.CAContentProvider,
		c.Authentication.RequestHeaderConfig.CAContentProvider)
	c.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		// From the innermost.
		handler = b.limitRemote(handler)
		handler = crds.NegotiateLists(handler)
		handler = b.writes.track(handler)
		handler = b.trusted.track(handler)
		handler = build(handler, c) // upstream's: authentication, audit, flow control, authorization
		handler = b.drain.endAfterGrace(handler)
		handler = endRefusedBodies(handler)
		if wrap := b.config.Extensions.Handler; wrap != nil {
			if handler = wrap(handler); handler == nil {
				b.refused = errors.New("Options.Middleware returned no handler: return one that calls the given one")
			}
		}
		if connections, ok := b.config.Listener.Listener.(*connectionLimits); ok {
			handler = connections.limitHeaders(handler) // outermost: it must know of all requests
		}
		return handler
	}
}
