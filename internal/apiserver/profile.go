package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/kube-openapi/pkg/common"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/kubernetes"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// profile selects the built-in types. The zero value is generic.
type profile struct {
	all     *kubernetes.Options // nil unless all types of kube-apiserver are served
	classes *workloads.PriorityClasses
}

func newProfile(name string) profile {
	if name == config.ProfileKubernetes {
		return profile{kubernetes.NewOptions(), &workloads.PriorityClasses{}}
	}
	return profile{}
}

// resources are the API versions that are on by default, and those that can be
// switched on.
func (p profile) resources() *serverstorage.ResourceConfig {
	resources := kube.DefaultResources()
	if p.all != nil {
		resources = kubernetes.Resources()
	}
	for _, g := range gated {
		if utilfeature.DefaultFeatureGate.Enabled(g.gate) {
			resources.EnableVersions(g.resource.GroupVersion())
		}
	}
	return resources
}

// definitions is the source of the OpenAPI schemas.
func (p profile) definitions() common.GetOpenAPIDefinitions {
	return kube.OpenAPIDefinitions(p.all != nil)
}

// offPlugins are the admission plugins that are off by default.
func (p profile) offPlugins() sets.Set[string] {
	if p.all != nil {
		return kubernetes.DefaultOffPlugins()
	}
	return sets.New(kubeoptions.AllOrderedPlugins...).Difference(sets.New(defaultPlugins...))
}

// addFlags adds the flags that only this profile has.
func (p profile) addFlags(flags *pflag.FlagSet) {
	if p.all != nil {
		p.all.AddFlags(flags)
	}
}

// validate checks the values of those flags.
func (p profile) validate() []error {
	if p.all != nil {
		return p.all.Validate()
	}
	return nil
}

// tokenGetter returns the function for
// [options.ServiceAccountAuthenticationOptions.OptionalTokenGetter]; nil for upstream's
// own, which reads pods and nodes. The getter reads the informers' caches, and reads objects
// that they lack from the API server through client: a cache may be behind, and the token of a
// new service account is valid at once.
func (p profile) tokenGetter(
	client client.Interface) func(informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	if p.all != nil {
		return nil
	}
	return func(factory informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
		core := factory.Core().V1()
		return tokenGetter{serviceaccountcontroller.NewGetterFromClient(client, core.Secrets().Lister(),
			core.ServiceAccounts().Lister(), nil, nil)}
	}
}

// handler refuses requests that types of the profile do not support.
func (p profile) handler(next http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	if p.all != nil {
		return kubernetes.RefuseKubelet(next, serializer)
	}
	return next
}

// connectStores connects the clients of the factory with etcd. Only upstream's
// allocators of the profile kubernetes make such clients.
func (p profile) connectStores(factory *serverstorage.DefaultStorageFactory,
	dial func(context.Context) (net.Conn, error), external config.ExternalEtcd) {
	if p.all == nil {
		return
	}
	transport := storagebackend.TransportConfig{
		ServerList: []string{embeddedEndpoint}, TracerProvider: factory.StorageConfig.Transport.TracerProvider,
		CertFile: external.CertFile, KeyFile: external.KeyFile, TrustedCAFile: external.CAFile,
	}
	if len(external.Endpoints) > 0 {
		transport.ServerList = external.Endpoints
	} else {
		transport.EgressLookup = func(egressselector.NetworkContext) (utilnet.DialFunc, error) {
			return func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, nil
		}
	}
	factory.StorageConfig.Transport = transport
}

// bootstrap creates the objects of kube-apiserver's start that only this profile has.
func (p profile) bootstrap(ctx context.Context, client client.Interface) error {
	if p.all != nil {
		return p.classes.Create(ctx, client)
	}
	return nil
}

// addHealthChecks adds the checks of what bootstrap creates.
func (p profile) addHealthChecks(c *genericapiserver.Config) {
	if p.all != nil {
		c.AddHealthChecks(p.classes.HealthCheck())
	}
}

// isWorkload reports whether only the profile kubernetes stores the resource, or one of the group
// if the resource is "*".
func isWorkload(resource schema.GroupResource) bool {
	names := workloads.StoredTypes[resource.Group]
	return slices.Contains(names, resource.Resource) || resource.Resource == "*" && len(names) > 0 ||
		resource == workloads.IPAddresses
}

// newServer creates the native API server with its types.
func (p profile) newServer(c *controlplane.Config, shared bool,
	delegate genericapiserver.DelegationTarget) (*controlplane.Server, error) {
	if p.all != nil {
		return kubernetes.New(c, p.all, shared, delegate)
	}
	return newGeneric(c, delegate)
}

// newGeneric creates the server of the generic types.
func newGeneric(c *controlplane.Config, delegate genericapiserver.DelegationTarget) (*controlplane.Server, error) {
	completed := c.Complete()
	native, err := completed.New(controlplane.KubeAPIServer, delegate)
	if err != nil {
		return nil, fmt.Errorf("create the native API server: %w", err)
	}
	client, err := client.NewForConfig(c.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("create the loopback client: %w", err)
	}
	providers, err := completed.GenericStorageProviders(client.Discovery())
	if err != nil {
		return nil, fmt.Errorf("create the storage of the native APIs: %w", err)
	}
	if err := native.InstallAPIs(kube.ShareTables(providers)...); err != nil {
		return nil, fmt.Errorf("install the native APIs: %w", err)
	}
	return native, nil
}

// tokenGetter gets the objects that a service account token is bound to. It is
// upstream's getter without pods and nodes, which are not served here and whose
// informers would never sync.
type tokenGetter struct {
	serviceaccount.ServiceAccountTokenGetter
}

// GetPod returns NotFound: a token bound to a pod is not valid here.
func (g tokenGetter) GetPod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}
