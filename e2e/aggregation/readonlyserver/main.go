// Command readonlyserver is an aggregated API server without a store. Its
// objects are assembled when somebody reads them: nodes of
// metrics.k8s.io/v1beta1, of which there is one, this process. The subresource
// nodes/whoami is answered by a handler of its own, which says who asks. Views
// of other types and proxies to other systems are made the same way.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/spf13/pflag"
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
	"k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	api "k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/install"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
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
	serving.AddFlags(flags)
	authentication.AddFlags(flags)
	authorization.AddFlags(flags)
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
	server, err := config.Complete().New("readonlyserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(api.GroupName, scheme, metav1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap[v1beta1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		"nodes":        &nodes{TableConvertor: rest.NewDefaultTableConvertor(api.Resource("nodes"))},
		"nodes/whoami": whoami{},
	}
	if err := server.InstallAPIGroup(&group); err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}

// self is the only node.
const self = "self"

// nodes implements get and list, and nothing that would change something.
type nodes struct{ rest.TableConvertor }

var (
	_ rest.Getter               = &nodes{}
	_ rest.Lister               = &nodes{}
	_ rest.Scoper               = &nodes{}
	_ rest.SingularNameProvider = &nodes{}
)

func (*nodes) New() runtime.Object     { return &api.NodeMetrics{} }
func (*nodes) NewList() runtime.Object { return &api.NodeMetricsList{} }
func (*nodes) Destroy()                {}
func (*nodes) NamespaceScoped() bool   { return false }
func (*nodes) GetSingularName() string { return "node" }

func (*nodes) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if name != self {
		return nil, apierrors.NewNotFound(api.Resource("nodes"), name)
	}
	now := measure()
	return &now, nil
}

func (*nodes) List(context.Context, *internalversion.ListOptions) (runtime.Object, error) {
	return &api.NodeMetricsList{Items: []api.NodeMetrics{measure()}}, nil
}

// measure reads what is true at this moment.
func measure() api.NodeMetrics {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	return api.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: self}, Timestamp: metav1.Now(), Window: metav1.Duration{Duration: time.Second},
		Usage: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(int64(sample[0].Value.Uint64()), resource.BinarySI)},
	}
}

// whoami answers with the identity that has arrived here.
type whoami struct{}

var _ rest.Connecter = whoami{}

func (whoami) New() runtime.Object                               { return &api.NodeMetrics{} }
func (whoami) Destroy()                                          {}
func (whoami) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }
func (whoami) ConnectMethods() []string                          { return []string{http.MethodGet} }

func (whoami) Connect(ctx context.Context, _ string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		user, ok := request.UserFrom(ctx)
		if !ok {
			responder.Error(errors.New("the request has no user"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // the client sees what is missing
			"name": user.GetName(), "uid": user.GetUID(), "groups": user.GetGroups(), "extra": user.GetExtra(),
		})
	}), nil
}
