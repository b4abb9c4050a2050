package kube

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Upstream fact: how the quota controller uses its informer and evaluators
//
// Mirrors: k8s.io/kubernetes/pkg/controller/resourcequota.NewController
//   k8s.io/kubernetes/pkg/controller/resourcequota.Controller.Sync
//   k8s.io/kubernetes/pkg/controller/resourcequota.Controller.addQuota
//   k8s.io/kubernetes/pkg/controller/resourcequota.Controller.syncResourceQuota
//   k8s.io/kubernetes/pkg/controller/resourcequota.QuotaMonitor.controllerFor
//   k8s.io/kubernetes/pkg/quota/v1/evaluator/core.NewEvaluators
// Why: the controller adds the evaluator of a type with its monitor, and
//   calculates a quota once. Types without objects have no monitor, so evaluators
//   are added before, and a quota is calculated again through the handler that
//   the controller adds to the informer.
// Gain: quotas of types without monitors (bench, crds); without it a quota on a
//   new type is wrong for minutes.
// Breaks: a quota that names a type without a monitor refuses its objects, or is not
//   calculated again. Tests: TestEvaluatorFollowsTheServedVersion, TestResourceQuota.

// QuotaInformer is the informer of resource quotas for the quota controller. It can make
// the controller calculate a quota again. The controller calculates a quota without types
// that have no monitor yet, and calculates it again minutes later; a new monitor does not
// report objects that were deleted before it started. It is safe for concurrent use.
type QuotaInformer struct {
	coreinformers.ResourceQuotaInformer

	mu      sync.Mutex
	handler cache.ResourceEventHandler
}

// Informer implements [coreinformers.ResourceQuotaInformer].
func (q *QuotaInformer) Informer() cache.SharedIndexInformer {
	return handlerCapture{q.ResourceQuotaInformer.Informer(), q}
}

// Recalculate makes the controller calculate the quotas for which affected returns true.
func (q *QuotaInformer) Recalculate(affected func(*corev1.ResourceQuota) bool) {
	q.mu.Lock()
	handler := q.handler
	q.mu.Unlock()
	if handler == nil {
		return
	}
	quotas, _ := q.Lister().List(labels.Everything()) // a lister of a cache returns no error
	for _, quota := range quotas {
		if affected(quota) {
			handler.OnAdd(quota, false)
		}
	}
}

// handlerCapture keeps the handler of the controller in its QuotaInformer.
type handlerCapture struct {
	cache.SharedIndexInformer
	of *QuotaInformer
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer].
func (c handlerCapture) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler,
	period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	c.of.mu.Lock()
	c.of.handler = handler
	c.of.mu.Unlock()
	return c.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
}
