package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// installMetrics serves /metrics with the metrics of upstream's registry, of prometheus' default
// registry, which etcd uses, of the remote availability controller, of custom resources, of the
// objects in the store, and with Config.Metrics. The first two have the metrics of all servers of
// the process: a server with OwnMetrics has neither, and resets nothing.
func (b *builder) installMetrics(server *genericapiserver.GenericAPIServer, extensions *crds.Server) error {
	registry := prometheus.NewRegistry()
	for _, collector := range slices.Concat(extensions.Metrics(),
		[]prometheus.Collector{b.config.Storage.ObjectMetrics()}, b.config.Metrics) {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("register the metrics of the server: %w", err)
		}
	}
	sources, own := prometheus.Gatherers{b.remote.metrics, registry}, b.config.Extensions.OwnMetrics
	if !own {
		utilfeature.DefaultMutableFeatureGate.AddMetrics()
		b.options.GenericServerRunOptions.ComponentGlobalsRegistry.AddMetrics()
		sources = append(sources, prometheus.GathererFunc(gather))
	}
	scrape, reset := promhttp.HandlerFor(sources, promhttp.HandlerOpts{}), legacyregistry.HandlerWithReset()
	mux := server.Handler.NonGoRestfulMux
	mux.Unregister("/metrics")
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && !own {
			reset.ServeHTTP(w, r)
			return
		}
		scrape.ServeHTTP(w, r)
	})
	return nil
}

// isOfEncryptionKey reports whether a metric is that of one key that a server has made, and not
// of all keys of a provider. The process keeps them after the server, a control plane, has stopped.
func isOfEncryptionKey(metric *dto.Metric) bool {
	return slices.ContainsFunc(metric.Label, func(l *dto.LabelPair) bool {
		return l.GetName() == "transformer_prefix" && strings.HasPrefix(l.GetValue(), encryption.KeyPrefix)
	})
}

// gather returns the metric families of upstream's registry, and those of the default registry that
// upstream's lacks: both registries collect metrics of the process and of the Go runtime.
func gather() ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return families, err
	}
	families = slices.DeleteFunc(families,
		func(family *dto.MetricFamily) bool { return storage.IsObjectMetric(family.GetName()) })
	seen := map[string]bool{}
	for _, family := range families {
		family.Metric = slices.DeleteFunc(family.Metric, isOfEncryptionKey)
		seen[family.GetName()] = true
	}
	others, err := prometheus.DefaultGatherer.Gather()
	for _, family := range others {
		if !seen[family.GetName()] {
			families = append(families, family)
		}
	}
	return families, err
}
