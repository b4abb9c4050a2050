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
	"k8s.io/component-base/metrics/legacyregistry"

	"kube-hyper-mini.io/kube-hyper-mini/internal/crds"
	"kube-hyper-mini.io/kube-hyper-mini/internal/encryption"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// installMetrics serves /metrics with the metrics of upstream's registry, of
// prometheus' default registry, which etcd uses, of the remote availability controller
// (see gather), of custom resources, of the objects in the store, and with Config.Metrics. The
// first two have the metrics of all servers of the process.
func (b *builder) installMetrics(server *genericapiserver.GenericAPIServer, extensions *crds.Server) error {
	registry := prometheus.NewRegistry()
	for _, collector := range slices.Concat(extensions.Metrics(),
		[]prometheus.Collector{b.config.Storage.ObjectMetrics()}, b.config.Metrics) {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("register the metrics of the server: %w", err)
		}
	}
	merged := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return gather(b.remote.metrics) })
	scrape := promhttp.HandlerFor(prometheus.Gatherers{merged, registry}, promhttp.HandlerOpts{})
	reset := legacyregistry.HandlerWithReset()
	mux := server.Handler.NonGoRestfulMux
	mux.Unregister("/metrics")
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
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

// gather returns the metric families of upstream's registry, merged with those of the
// remote availability controller, and the families of the default registry that upstream's
// lacks: both registries collect metrics of the process and of the Go runtime.
func gather(remote prometheus.Gatherer) ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return families, err
	}
	families = slices.DeleteFunc(families,
		func(family *dto.MetricFamily) bool { return storage.IsObjectMetric(family.GetName()) })
	seen := map[string]*dto.MetricFamily{}
	for _, family := range families {
		family.Metric = slices.DeleteFunc(family.Metric, isOfEncryptionKey)
		seen[family.GetName()] = family
	}
	remotes, err := remote.Gather()
	if err != nil {
		return families, err
	}
	for _, family := range remotes {
		if local := seen[family.GetName()]; local != nil {
			local.Metric = append(local.Metric, family.Metric...)
			continue
		}
		seen[family.GetName()] = family
		families = append(families, family)
	}
	others, err := prometheus.DefaultGatherer.Gather()
	for _, family := range others {
		if seen[family.GetName()] == nil {
			families = append(families, family)
		}
	}
	return families, err
}
