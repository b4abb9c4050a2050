package apiserver

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/component-base/metrics/legacyregistry"
)

// installMetrics serves /metrics with the metrics of upstream's registry, of
// prometheus' default registry, which etcd uses, and of own.
func installMetrics(mux *mux.PathRecorderMux, own ...prometheus.Collector) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(own...)
	scrape := promhttp.HandlerFor(prometheus.Gatherers{prometheus.GathererFunc(gather), registry}, promhttp.HandlerOpts{})
	reset := legacyregistry.HandlerWithReset()
	mux.Unregister("/metrics")
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			reset.ServeHTTP(w, r)
			return
		}
		scrape.ServeHTTP(w, r)
	})
}

// gather returns the metric families of upstream's registry, merged with those of
// remoteMetrics, and the families of the default registry that upstream's lacks: both
// registries collect metrics of the process and of the Go runtime.
func gather() ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return families, err
	}
	seen := map[string]*dto.MetricFamily{}
	for _, family := range families {
		seen[family.GetName()] = family
	}
	remote, err := remoteMetrics.Gather()
	if err != nil {
		return families, err
	}
	for _, family := range remote {
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
