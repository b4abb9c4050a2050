package controllers

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	quotaWorkers = 5 // kube-controller-manager's default
	// quotaPeriod is the interval at which all quotas are recalculated
	// (--resource-quota-sync-period).
	quotaPeriod = 5 * time.Minute
	// newMonitorPoll is the interval at which recalculate checks for new monitors.
	newMonitorPoll = 50 * time.Millisecond
	// never is the time of a timer that is not needed.
	never = 24 * time.Hour
)

// buildResourceQuota builds upstream's controller with the visible types.
func buildResourceQuota(ctx context.Context, env *environment) (func(context.Context), string, error) {
	client, err := env.client("resourcequota-controller")
	if err != nil {
		return nil, "", err
	}
	monitors := env.newMonitors()
	// The constructors of upstream's evaluators of pods and devices need informers. These types
	// are not served, and the informers are not started.
	neverStarted := informers.NewSharedInformerFactory(nil, 0)
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(servedListers(env), neverStarted)
	if err != nil {
		return nil, "", fmt.Errorf("make the quota evaluators: %w", err)
	}
	evaluators := &evaluators{
		types: env.types, informers: env.monitorInformers,
		ignored: configuration.IgnoredResources(), registry: generic.NewRegistry(configuration.Evaluators()),
	}
	quotas := &kube.QuotaInformer{
		ResourceQuotaInformer: env.config.Informers.Core().V1().ResourceQuotas(),
		Before:                func(quota any) { evaluators.require(typesNamedBy(quota)) },
	}
	env.atEnd(quotas.RemoveHandler)
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
				env.visible.follow(ctx, func(ctx context.Context) { controller.Sync(ctx, discover, syncPeriod) })
			},
			evaluators.run,
			func(ctx context.Context) { recalculate(ctx, quotas, env.visible, monitors.synced) })
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

// addAll adds the evaluators of all types. Those of types that are gone stay, as upstream's.
func (e *evaluators) addAll() {
	lists, _, _ := e.types.snapshot()
	e.add(onlyNamespaced(lists))
}

// lister returns the lister of a type in the version that controllers monitor now, not in
// the one that was served when the evaluator was made.
func (e *evaluators) lister(resource schema.GroupVersionResource) (cache.GenericLister, error) {
	return e.informers.lister(e.types.inPreferredVersion(resource)), nil
}

// recalculate makes the controller calculate quotas again when the types that they name
// have got monitors, until ctx ends.
func recalculate(ctx context.Context, quotas *kube.QuotaInformer, visible *visibleTypes,
	synced func(schema.GroupVersionResource) bool) {
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
		if len(added) > 0 {
			quotas.Recalculate(func(quota *corev1.ResourceQuota) bool { return namesAny(quota, added) })
		}
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

// namesAny reports whether the quota names one of the types.
func namesAny(quota *corev1.ResourceQuota, types map[schema.GroupResource]bool) bool {
	for resource := range quotaTypes(quota) {
		if types[resource] {
			return true
		}
	}
	return false
}

// servedListers returns the listers of the shared informers, and an empty lister for a
// type that is not served: a quota on pods is accepted and shows 0 used.
func servedListers(env *environment) quota.ListerForResourceFunc {
	served := generic.ListerFuncForResourceFunc(env.config.Informers.ForResource)
	return func(resource schema.GroupVersionResource) (cache.GenericLister, error) {
		if env.config.Types.Serves(resource) {
			return served(resource)
		}
		return cache.NewGenericLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
			resource.GroupResource()), nil
	}
}
