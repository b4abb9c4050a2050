package controllers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
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
// Breaks: a quota that names a type without a monitor refuses its objects, or is
//   not calculated again.

const (
	quotaWorkers = 5 // kube-controller-manager's default
	// quotaPeriod is the interval at which all quotas are recalculated
	// (--resource-quota-sync-period).
	quotaPeriod = 5 * time.Minute
	// newMonitorPoll is the interval at which recalculate checks for new monitors.
	newMonitorPoll = 50 * time.Millisecond
)

// buildResourceQuota builds upstream's controller with the visible types.
func buildResourceQuota(ctx context.Context, env *environment) (func(context.Context), string, error) {
	client, err := env.client("resourcequota-controller")
	if err != nil {
		return nil, "", err
	}
	monitors := env.anyInformers.newMonitors()
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(servedListers(env), neverStarted)
	if err != nil {
		return nil, "", fmt.Errorf("make the quota evaluators: %w", err)
	}
	evaluators := &evaluators{types: env.types, informers: env.anyInformers, ignored: configuration.IgnoredResources(), registry: generic.NewRegistry(configuration.Evaluators())}
	quotas := &quotaInformer{ResourceQuotaInformer: env.config.Informers.Core().V1().ResourceQuotas(), evaluators: evaluators}
	env.atEnd(quotas.removeHandler)
	discover := func() ([]*metav1.APIResourceList, error) {
		lists, err := env.visible.namespaced()
		evaluators.add(lists) // otherwise upstream adds its own, with the monitors
		return lists, err
	}
	controller, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     quotas,
		ResyncPeriod:              func() time.Duration { return quotaPeriod },
		InformerFactory:           monitors,
		ReplenishmentResyncPeriod: resyncPeriod,
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      configuration.IgnoredResources,
		InformersStarted:          env.informersStarted,
		Registry:                  evaluators.registry,
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, "", err
	}
	return func(ctx context.Context) {
		concurrently(ctx,
			func(ctx context.Context) { controller.Run(ctx, quotaWorkers) },
			func(ctx context.Context) {
				env.visible.follow(ctx, monitors, func(ctx context.Context) { controller.Sync(ctx, discover, syncPeriod) })
			},
			evaluators.run,
			func(ctx context.Context) { quotas.recalculate(ctx, env.visible, monitors.synced) })
	}, "", nil
}

// evaluators has the quota evaluators of all types. Upstream adds the evaluator of a type
// with its monitor. A quota that names a type without an evaluator refuses objects of
// that type.
type evaluators struct {
	types     *discoverer
	informers *informerSet
	ignored   map[schema.GroupResource]struct{}
	registry  quota.Registry
}

// run adds evaluators of new types until ctx ends.
func (e *evaluators) run(ctx context.Context) {
	for ctx.Err() == nil {
		_, changed, _ := e.types.snapshot()
		e.addAll()
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// require adds the evaluators of new types if one of the resources has none.
func (e *evaluators) require(resources map[schema.GroupResource]bool) {
	for resource := range resources {
		if e.registry.Get(resource) == nil {
			// After an error the discoverer queries again, and run adds the types.
			_ = e.types.refresh()
			e.addAll()
			return
		}
	}
}

// add adds the evaluators of the namespaced types that a quota can count.
func (e *evaluators) add(lists []*metav1.APIResourceList) {
	// An error means an invalid group version, which has no types.
	types, _ := resourcequota.GetQuotableResources(func() ([]*metav1.APIResourceList, error) { return lists, nil })
	for gvr := range types {
		resource := gvr.GroupResource()
		if _, ignored := e.ignored[resource]; !ignored && e.registry.Get(resource) == nil {
			e.registry.Add(generic.NewObjectCountEvaluator(resource, generic.ListResourceUsingListerFunc(e.lister, gvr), ""))
		}
	}
}

// addAll adds the evaluators of all types.
func (e *evaluators) addAll() {
	lists, _, _ := e.types.snapshot()
	e.add(onlyNamespaced(lists))
}

func (e *evaluators) lister(resource schema.GroupVersionResource) (cache.GenericLister, error) {
	return e.informers.lister(resource), nil
}

// quotaInformer is the informer of resource quotas. It can make the controller calculate
// a quota again. Upstream calculates a quota without types that have no monitor yet,
// and calculates it again minutes later; a new monitor does not report objects that
// were deleted before it started.
type quotaInformer struct {
	coreinformers.ResourceQuotaInformer
	evaluators *evaluators

	mu           sync.Mutex
	handler      cache.ResourceEventHandler
	registration cache.ResourceEventHandlerRegistration
}

// Informer implements [coreinformers.ResourceQuotaInformer].
func (q *quotaInformer) Informer() cache.SharedIndexInformer {
	return handlerCapture{q.ResourceQuotaInformer.Informer(), q}
}

// handlerCapture keeps the handler of the controller in its quotaInformer.
type handlerCapture struct {
	cache.SharedIndexInformer
	of *quotaInformer
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer].
func (c handlerCapture) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	handler = evaluatedFirst{handler, c.of.evaluators}
	c.of.mu.Lock()
	c.of.handler = handler
	c.of.mu.Unlock()
	registration, err := c.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
	if err != nil {
		return nil, err
	}
	c.of.mu.Lock()
	c.of.registration = registration
	c.of.mu.Unlock()
	return registration, nil
}

// removeHandler removes the handler of the controller.
func (q *quotaInformer) removeHandler() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.registration != nil {
		// An error means that the informer has stopped.
		_ = q.ResourceQuotaInformer.Informer().RemoveEventHandler(q.registration)
	}
}

// evaluatedFirst adds the evaluators of the types that a quota names before the
// controller calculates the quota.
type evaluatedFirst struct {
	cache.ResourceEventHandler
	evaluators *evaluators
}

// OnAdd implements [cache.ResourceEventHandler].
func (e evaluatedFirst) OnAdd(obj any, isInInitialList bool) {
	e.evaluators.require(names(obj))
	e.ResourceEventHandler.OnAdd(obj, isInInitialList)
}

// OnUpdate implements [cache.ResourceEventHandler].
func (e evaluatedFirst) OnUpdate(previous, current any) {
	e.evaluators.require(names(current))
	e.ResourceEventHandler.OnUpdate(previous, current)
}

// recalculate makes the controller calculate quotas again when the types that they name
// have got monitors, until ctx ends.
func (q *quotaInformer) recalculate(ctx context.Context, visible *visibleTypes, synced func(schema.GroupVersionResource) bool) {
	monitored := map[schema.GroupResource]bool{}
	for ctx.Err() == nil {
		namedChanged := visible.named.changed()
		_, visibleChanged, _ := visible.snapshot()
		added, waiting := map[schema.GroupResource]bool{}, false
		named := visible.named.current()
		for gvr := range visible.stored() {
			resource := gvr.GroupResource()
			if !named[resource] || monitored[resource] {
				continue
			}
			if synced(gvr) {
				monitored[resource], added[resource] = true, true
			} else {
				waiting = true
			}
		}
		maps.DeleteFunc(monitored, func(resource schema.GroupResource, _ bool) bool { return !named[resource] })
		q.calculate(added)
		delay := never
		if waiting {
			delay = newMonitorPoll
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-namedChanged:
		case <-visibleChanged:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// calculate makes the controller calculate the quotas that name one of the types.
func (q *quotaInformer) calculate(types map[schema.GroupResource]bool) {
	q.mu.Lock()
	handler := q.handler
	q.mu.Unlock()
	if handler == nil || len(types) == 0 {
		return
	}
	quotas, _ := q.Lister().List(labels.Everything()) // a lister of a cache returns no error
	for _, quota := range quotas {
		for resource := range quotaTypes(quota) {
			if types[resource] {
				handler.OnAdd(quota, false)
				break
			}
		}
	}
}

// neverStarted has the informers that the constructors of upstream's evaluators of pods
// and devices need. These types are not served, and the informers are not started.
var neverStarted = informers.NewSharedInformerFactory(nil, 0)

// servedListers returns the listers of the shared informers, and an empty lister for a
// type that is not served: a quota on pods is accepted and shows 0 used.
func servedListers(env *environment) quota.ListerForResourceFunc {
	served := generic.ListerFuncForResourceFunc(env.config.Informers.ForResource)
	return func(resource schema.GroupVersionResource) (cache.GenericLister, error) {
		if env.config.Types.Serves(resource) {
			return served(resource)
		}
		return cache.NewGenericLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), resource.GroupResource()), nil
	}
}
