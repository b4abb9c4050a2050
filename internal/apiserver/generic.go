package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	flowcontrolrest "k8s.io/kubernetes/pkg/registry/flowcontrol/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// OwnPrefix begins the paths that this program serves beside the API.
const OwnPrefix = "/kube-hyper-mini/"

// longRunning reports whether a request has no deadline: upstream's long-running
// requests, and the POST requests of this program's commands.
func longRunning(r *http.Request, info *request.RequestInfo) bool {
	return kube.IsLongRunning(r, info) || isCommand(r, info)
}

func isCommand(r *http.Request, info *request.RequestInfo) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(info.Path, OwnPrefix)
}

// genericConfig applies the options to the configuration that the three servers share.
func (b *builder) genericConfig() (*serverstorage.DefaultStorageFactory, error) {
	applied, err := kube.GenericOptions{
		Options: b.options, Resources: b.profile.resources(), Loopback: b.loopback.ClientConfig(),
		Definitions: b.definitions(), Schemes: b.schemes(), Transform: servedtypes.DropUnread,
		Prepare: b.prepareGeneric, Stored: b.connectStores, Authenticated: b.adaptAuthentication,
	}.Apply()
	if err != nil {
		return nil, err
	}
	c := applied.Config
	b.generic, b.informers, b.rbac = c, &readyInformers{SharedInformerFactory: applied.Informers}, applied.RBAC
	b.extendAuthorization(c)
	if access := b.config.Extensions.Access; access != nil {
		access(audienceChecked(c.Authentication), c.Authorization.Authorizer)
	}
	if extend := b.config.Extensions.Audit; extend != nil {
		c.AuditBackend = extend(c.AuditBackend)
	}
	c.EffectiveVersion = builtVersion{c.EffectiveVersion}
	// kube.EnsureRBAC does the work of the first one.
	c.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName, kube.TokenTrackingHook)
	if b.flowControl = b.options.Features.EnablePriorityAndFairness; !b.flowControl {
		c.DisabledPostStartHooks.Insert(flowcontrolrest.PostStartHookName)
	}
	if !b.needsIdentityLease(c) {
		c.DisabledPostStartHooks.Insert(kube.IdentityLeaseHook, kube.IdentityLeaseGCHook)
	}
	b.addHealthChecks()
	return applied.Stores, nil
}

// prepareGeneric is called before the options are applied.
func (b *builder) prepareGeneric(c *genericapiserver.Config, client kubernetes.Interface) {
	b.discovery = crds.NewDiscovery(aggregated.NewResourceManager("apis"))
	c.AggregatedDiscoveryGroupManager = b.discovery
	c.LongRunningFunc = longRunning
	c.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		l := &limits{
			Limits: b.settings.Limits, bodySize: max(c.MaxRequestBodyBytes, 0), taken: newBudgets(),
			serializer: c.Serializer, remote: b.isRemote, size: b.config.Storage.Population().Size,
		}
		// From the innermost.
		handler = b.profile.handler(handler, c.Serializer)
		handler = l.handler(handler)
		return markControllers(genericapiserver.DefaultBuildHandlerChain(handler, c))
	}
	b.options.Authentication.ServiceAccounts.OptionalTokenGetter = b.profile.tokenGetter(client)
}

// connectStores replaces the way to etcd that the storage options have set.
func (b *builder) connectStores(factory *serverstorage.DefaultStorageFactory, c *genericapiserver.Config) {
	b.profile.connectStores(factory, b.config.Storage.Dial, b.settings.External)
	b.store(c)
}

// adaptAuthentication is called after the authentication options were applied.
func (b *builder) adaptAuthentication(c *genericapiserver.Config) error {
	b.cacheCertificates(c)
	b.bootstrap.authenticate(c)
	b.extendAuthentication(c)
	explainIssuers(c)
	if err := allowAnonymousHealth(c, b.options.Authentication.AuthenticationConfigFile); err != nil {
		return fmt.Errorf("allow anonymous access to the health checks: %w", err)
	}
	c.Authentication.Authenticator = refuseRevoked(c.Authentication.Authenticator, b.config.Revoked)
	return nil
}

// cacheCertificates keeps the verification of client certificates, see certificateCache.
func (b *builder) cacheCertificates(c *genericapiserver.Config) {
	c.Authentication.Authenticator = newCertificateCache(c.Authentication.Authenticator,
		b.options.Authentication.ClientCert.CAContentProvider.CurrentCABundleContent,
		c.Authentication.RequestHeaderConfig.UsernameHeaders)
}

// needsIdentityLease reports whether other servers or the garbage collector of storage
// versions read the identity lease of this server. Otherwise upstream's controller is
// disabled: while it cannot write the lease, it delays the stop.
func (b *builder) needsIdentityLease(c *genericapiserver.Config) bool {
	isRead := b.config.Shared || utilfeature.DefaultFeatureGate.Enabled(features.StorageVersionAPI)
	return isRead && c.MergedResourceConfig.ResourceEnabled(coordinationv1.SchemeGroupVersion.WithResource("leases"))
}

// admission is that of the extensions, then the plugins of upstream, then what applies to all
// types.
func (b *builder) admission(plugins admission.Interface) admission.Interface {
	return bootstrapAdmission{admission.NewChainHandler(slices.Concat(b.config.Extensions.Admission,
		[]admission.Interface{reservedGroups(b.config.Extensions.Groups), policyWrites{b}, plugins,
			growthLimit{b.settings.Limits.Entries}})...)}
}
