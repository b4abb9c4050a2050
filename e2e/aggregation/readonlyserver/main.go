// Command readonlyserver is an aggregated API server without a store, whose
// objects are assembled when they are read. In metrics.k8s.io/v1beta1 it has
// nodes, of which there is one, this process; and pods, which are another type
// of another server seen differently: each lease is one. The subresource
// nodes/whoami is answered by a handler of its own, which says who asks.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/metrics"
	"time"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	api "k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/install"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/ptr"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func main() {
	if err := run(genericapiserver.SetupSignalContext()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	install.Install(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"}, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	// What every extension server needs: TLS, and the main server's word on
	// who asks and what they may. No etcd, and so no admission.
	serving := options.NewSecureServingOptions().WithLoopback()
	authentication := options.NewDelegatingAuthenticationOptions()
	authorization := options.NewDelegatingAuthorizationOptions()
	flags := pflag.NewFlagSet("readonlyserver", pflag.ContinueOnError)
	for _, add := range []func(*pflag.FlagSet){serving.AddFlags, authentication.AddFlags, authorization.AddFlags} {
		add(flags)
	}
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	config := genericapiserver.NewRecommendedConfig(codecs)
	config.EffectiveVersion = compatibility.NewEffectiveVersionFromString(baseversion.DefaultKubeBinaryVersion, "", "")
	namer := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, namer)
	if err := errors.Join(
		serving.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig),
		authentication.ApplyTo(&config.Authentication, config.SecureServing, nil),
		authorization.ApplyTo(&config.Authorization),
	); err != nil {
		return err
	}
	access, err := clientcmd.BuildConfigFromFlags("", authentication.RemoteKubeConfigFile)
	if err != nil {
		return err
	}
	client, clientErr := coordinationclient.NewForConfig(access)
	server, err := config.Complete().New("readonlyserver", genericapiserver.NewEmptyDelegate())
	if err := errors.Join(clientErr, err); err != nil {
		return err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(api.GroupName, scheme, metav1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap[v1beta1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"nodes":        &nodes{TableConvertor: rest.NewDefaultTableConvertor(api.Resource("nodes"))},
		"nodes/whoami": whoami{},
		"pods":         &pods{TableConvertor: rest.NewDefaultTableConvertor(api.Resource("pods")), leases: client},
	}
	if err = server.InstallAPIGroup(&group); err == nil {
		err = server.PrepareRun().RunWithContext(ctx)
	}
	return err
}

// self is the only node.
const self = "self"

// nodes implements get and list, and nothing that would change something.
type nodes struct{ rest.TableConvertor }

// New implements [rest.Storage].
func (*nodes) New() runtime.Object { return &api.NodeMetrics{} }

// NewList implements [rest.Lister].
func (*nodes) NewList() runtime.Object { return &api.NodeMetricsList{} }

// Destroy implements [rest.Storage].
func (*nodes) Destroy() {}

// NamespaceScoped implements [rest.Scoper].
func (*nodes) NamespaceScoped() bool { return false }

// GetSingularName implements [rest.SingularNameProvider].
func (*nodes) GetSingularName() string { return "node" }

// Get implements [rest.Getter].
func (*nodes) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if name != self {
		return nil, apierrors.NewNotFound(api.Resource("nodes"), name)
	}
	return measure(), nil
}

// List implements [rest.Lister].
func (*nodes) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	return &api.NodeMetricsList{Items: []api.NodeMetrics{*measure()}}, nil
}

// measure reads what is true at this moment.
func measure() *api.NodeMetrics {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return &api.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: self}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: time.Second},
		Usage: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(int64(sample[0].Value.Uint64()), resource.BinarySI)},
	}
}

// pods are the leases of a namespace, each with when it was renewed and for how
// long it counts.
type pods struct {
	rest.TableConvertor
	leases coordinationclient.LeasesGetter
}

// New implements [rest.Storage].
func (*pods) New() runtime.Object { return &api.PodMetrics{} }

// NewList implements [rest.Lister].
func (*pods) NewList() runtime.Object { return &api.PodMetricsList{} }

// Destroy implements [rest.Storage].
func (*pods) Destroy() {}

// NamespaceScoped implements [rest.Scoper].
func (*pods) NamespaceScoped() bool { return true }

// GetSingularName implements [rest.SingularNameProvider].
func (*pods) GetSingularName() string { return "pod" }

// Get implements [rest.Getter].
func (p *pods) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	lease, err := p.leases.Leases(request.NamespaceValue(ctx)).Get(ctx, name, *options)
	if err != nil {
		return nil, err
	}
	return view(lease), nil
}

// List implements [rest.Lister].
func (p *pods) List(ctx context.Context, _ *internalversion.ListOptions) (runtime.Object, error) {
	leases, err := p.leases.Leases(request.NamespaceValue(ctx)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &api.PodMetricsList{}
	for _, lease := range leases.Items {
		list.Items = append(list.Items, *view(&lease))
	}
	return list, nil
}

func view(lease *coordinationv1.Lease) *api.PodMetrics {
	return &api.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name, CreationTimestamp: lease.CreationTimestamp},
		Timestamp:  metav1.Time(ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{})),
		Window:     metav1.Duration{Duration: time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second},
	}
}

// whoami answers with the identity that has arrived here.
type whoami struct{}

// New implements [rest.Storage].
func (whoami) New() runtime.Object { return &api.NodeMetrics{} }

// Destroy implements [rest.Storage].
func (whoami) Destroy() {}

// NewConnectOptions implements [rest.Connecter].
func (whoami) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// ConnectMethods implements [rest.Connecter].
func (whoami) ConnectMethods() []string { return []string{http.MethodGet} }

// Connect implements [rest.Connecter].
func (whoami) Connect(ctx context.Context, _ string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		user, ok := request.UserFrom(ctx)
		if !ok {
			responder.Error(errors.New("the request has no user"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // the client notices an incomplete response
			"name": user.GetName(), "uid": user.GetUID(), "groups": user.GetGroups(), "extra": user.GetExtra(),
		})
	}), nil
}
