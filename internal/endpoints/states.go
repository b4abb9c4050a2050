package endpoints

import (
	"cmp"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what the last probe of a ServiceEndpoint object has found.
type State struct {
	Reference Reference
	// Targets is their number, Reachable that of those that speak TLS.
	Targets, Reachable int
	// Failure says what is wrong with the others; empty if nothing is.
	Failure string
}

// States returns the states of all objects that were probed, sorted by namespace and
// name.
func (r *Resolver) States() []State {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.states), func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Reference.Namespace, b.Reference.Namespace),
			cmp.Compare(a.Reference.Name, b.Reference.Name))
	})
}

// setState records the result of a probe, also as metrics.
func (r *Resolver) setState(state State) {
	ref := state.Reference
	r.metrics.targets.WithLabelValues(ref.Namespace, ref.Name).Set(float64(state.Targets))
	r.metrics.reachable.WithLabelValues(ref.Namespace, ref.Name).Set(float64(state.Reachable))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[ref] = state
}

// dropState drops the result for an object that does not exist or is not used, and the
// health of its targets, which a probe may have recorded after the object was removed.
func (r *Resolver) dropState(ref Reference) {
	r.metrics.targets.DeleteLabelValues(ref.Namespace, ref.Name)
	r.metrics.reachable.DeleteLabelValues(ref.Namespace, ref.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.states, ref)
	if !r.configured(ref) && r.objectTargets[ref] == nil {
		delete(r.healths, ref)
	}
}

// Remote counts the servers of other programs that this one calls.
type Remote struct {
	// APIServices that other servers answer, and ServiceEndpoint objects.
	APIServices      int `json:"apiServices"`
	ServiceEndpoints int `json:"serviceEndpoints"`
	// Failing are those that are not available, or have targets that cannot be
	// reached.
	Failing []FailingRemote `json:"failing,omitempty"`
	// ConversionWebhooks has the server of each CustomResourceDefinition whose versions
	// a webhook converts: NAMESPACE/NAME of a service, or a URL.
	ConversionWebhooks map[string]string `json:"conversionWebhooks,omitempty"`
}

// FailingRemote is an APIService or a ServiceEndpoint whose server does not answer.
type FailingRemote struct {
	Kind string `json:"kind"`
	// Namespace is empty for an APIService.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
}

// String is KIND NAME or KIND NAMESPACE/NAME.
func (f FailingRemote) String() string {
	if f.Namespace == "" {
		return f.Kind + " " + f.Name
	}
	return f.Kind + " " + f.Namespace + "/" + f.Name
}

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
