package endpoints

import "github.com/prometheus/client_golang/prometheus"

// resolverMetrics are the metrics of a resolver.
type resolverMetrics struct{ targets, reachable *prometheus.GaugeVec }

func newResolverMetrics() resolverMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kube_hyper_mini_service_endpoint_" + name, Help: help},
			[]string{"namespace", "name"})
	}
	return resolverMetrics{gauge("targets", "Targets of a ServiceEndpoint object."),
		gauge("reachable_targets", "Targets of a ServiceEndpoint object that speak TLS.")}
}

// Metrics are those of this resolver.
func (r *Resolver) Metrics() []prometheus.Collector {
	return []prometheus.Collector{r.metrics.targets, r.metrics.reachable}
}

func (m resolverMetrics) set(ref Reference, targets, reachable int) {
	m.targets.WithLabelValues(ref.Namespace, ref.Name).Set(float64(targets))
	m.reachable.WithLabelValues(ref.Namespace, ref.Name).Set(float64(reachable))
}

func (m resolverMetrics) remove(ref Reference) {
	m.targets.DeleteLabelValues(ref.Namespace, ref.Name)
	m.reachable.DeleteLabelValues(ref.Namespace, ref.Name)
}
