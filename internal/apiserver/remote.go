package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"

	"github.com/blang/semver/v4"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/labels"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	apiregistrationlisters "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/aggregation"
	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// remote resolves and dials `service:` references.
type remote struct {
	webhooks, aggregator webhook.ServiceResolver
	// direct dials addresses of targets; dial dials the names that the resolvers return.
	direct, dial utilnet.DialFunc
	resolver     *endpoints.Resolver
	services     apiregistrationlisters.APIServiceLister // set with the aggregator
	// metrics are those of the remote availability controller. Upstream's registry has
	// metrics of the same names, of the local controller; /metrics has both. It is not a
	// [metrics.KubeRegistry]: the process keeps those after their server has stopped.
	metrics *prometheus.Registry
}

// configureRemote configures resolvers and dialers of remote servers. The dialer of the
// resolver uses a configured egress selector. Call it after genericConfig and before
// the configuration is copied.
func (b *builder) configureRemote() error {
	resolver := b.config.Endpoints
	b.remote = remote{webhooks: resolver.Webhooks(), aggregator: resolver.Aggregator(), direct: endpoints.Direct(),
		resolver: resolver, metrics: prometheus.NewRegistry()}
	if selector := b.generic.EgressSelector; selector != nil {
		dialers := map[egressselector.EgressType]utilnet.DialFunc{}
		for _, kind := range []egressselector.EgressType{egressselector.ControlPlane,
			egressselector.Etcd, egressselector.Cluster} {
			dial, err := selector.Lookup(kind.AsNetworkContext())
			if err != nil {
				return fmt.Errorf("look up the egress to %s: %w", kind, err)
			}
			if dial != nil {
				dialers[kind] = dial
			}
		}
		if dial, ok := dialers[egressselector.Cluster]; ok {
			b.remote.direct = dial
		}
		dialers[egressselector.Cluster] = resolver.Dialer(b.remote.direct)
		b.generic.EgressSelector = egressselector.NewEgressSelectorWithMap(dialers)
	}
	b.remote.dial = resolver.Dialer(b.remote.direct)
	// As upstream, a reference to default/kubernetes means this server.
	host, err := url.Parse(b.generic.LoopbackClientConfig.Host)
	if err != nil {
		return fmt.Errorf("read the URL of the loopback client: %w", err)
	}
	b.remote.webhooks = aggregatorapiserver.NewLoopbackServiceResolver(b.remote.webhooks, host)
	b.remote.aggregator = aggregatorapiserver.NewLoopbackServiceResolver(b.remote.aggregator, host)
	return nil
}

// followRemote adds the controllers for remote servers to the aggregator.
func (b *builder) followRemote(aggregator *aggregatorapiserver.APIAggregator) (*documents, error) {
	resolver, files := b.config.Endpoints, b.config.Files
	services := aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices()
	b.remote.services = services.Lister()
	caller := aggregation.NewCaller(resolver, b.remote.dial, func() (certificate, key []byte, err error) {
		if certificate, err = os.ReadFile(files.FrontProxyCert); err != nil {
			return nil, nil, err
		}
		key, err = os.ReadFile(files.FrontProxyKey)
		return certificate, key, err
	})
	availability, err := aggregation.NewAvailability(caller, b.generic.LoopbackClientConfig, services, b.config.Log)
	if err != nil {
		return nil, err
	}
	var version semver.Version // that hides metrics; none of these is deprecated
	register := func(m metrics.Registerable) error {
		m.Create(&version)
		return b.remote.metrics.Register(m)
	}
	registerStable := func(m metrics.StableCollector) error {
		m.Create(&version, m)
		return b.remote.metrics.Register(m)
	}
	if err := availability.Metrics().Register(register, registerStable); err != nil {
		return nil, fmt.Errorf("register the metrics of remote availability: %w", err)
	}
	copies, err := aggregation.NewDocuments(caller, services, b.config.Log)
	if err != nil {
		return nil, err
	}
	documents, err := addDocuments(aggregator, copies)
	if err != nil {
		return nil, err
	}
	return documents, aggregator.GenericAPIServer.AddPostStartHook(kube.RemoteHook,
		func(hook genericapiserver.PostStartHookContext) error {
			go availability.Run(hook)
			go b.trusted.run(hook)
			go func(ctx context.Context) {
				if err := resolver.Run(ctx, hook.LoopbackClientConfig, b.remote.direct,
					b.config.Log); err != nil && ctx.Err() == nil {
					klog.ErrorS(err, "Watching ServiceEndpoint objects failed")
				}
			}(hook)
			return nil
		})
}

// RemoteServers returns the state of the servers that APIServices and ServiceEndpoints name.
// Call it when the server is ready.
func (s *Server) RemoteServers() (endpoints.Remote, error) {
	remote := endpoints.Remote{ConversionWebhooks: s.crds.ConversionWebhooks()}
	services, err := s.remote.services.List(labels.Everything())
	if err != nil {
		return remote, fmt.Errorf("list APIServices: %w", err)
	}
	for _, service := range services {
		if service.Spec.Service == nil {
			continue
		}
		remote.APIServices++
		if available, message := availability(service); !available {
			remote.Failing = append(remote.Failing, endpoints.FailingRemote{Kind: "APIService",
				Name: service.Name, Reason: message})
		}
	}
	slices.SortFunc(remote.Failing, func(a, b endpoints.FailingRemote) int { return cmp.Compare(a.Name, b.Name) })
	states := s.remote.resolver.States()
	remote.ServiceEndpoints = len(states)
	for _, state := range states {
		if state.Reachable < state.Targets {
			remote.Failing = append(remote.Failing, endpoints.FailingRemote{
				Kind: "ServiceEndpoint", Namespace: state.Reference.Namespace, Name: state.Reference.Name, Reason: state.Failure,
			})
		}
	}
	return remote, nil
}

// availability returns whether the condition Available is true, and its message.
func availability(service *apiregistrationv1.APIService) (bool, string) {
	condition := helper.GetAPIServiceConditionByType(service, apiregistrationv1.Available)
	if condition == nil {
		return false, "it has not been checked yet"
	}
	return condition.Status == apiregistrationv1.ConditionTrue, condition.Message
}
