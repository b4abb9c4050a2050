package endpoints

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	targetsMetric = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_service_endpoint_targets", StabilityLevel: metrics.ALPHA,
		Help: "Targets of a ServiceEndpoint object.",
	}, []string{"namespace", "name"})
	reachableMetric = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "kube_hyper_mini_service_endpoint_reachable_targets", StabilityLevel: metrics.ALPHA,
		Help: "Targets of a ServiceEndpoint object that speak TLS.",
	}, []string{"namespace", "name"})
)

// registerMetrics registers the metrics of ServiceEndpoints once.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(targetsMetric, reachableMetric) })

func setMetrics(ref Reference, targets, reachable int) {
	labels := map[string]string{"namespace": ref.Namespace, "name": ref.Name}
	targetsMetric.With(labels).Set(float64(targets))
	reachableMetric.With(labels).Set(float64(reachable))
}

func deleteMetrics(ref Reference) {
	labels := map[string]string{"namespace": ref.Namespace, "name": ref.Name}
	targetsMetric.Delete(labels)
	reachableMetric.Delete(labels)
}
