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

const (
	quotaWorkers = 5 // kube-controller-manager's default
	// quotaPeriod is how often quota is recalculated without a reason
	// (--resource-quota-sync-period).
	quotaPeriod = 5 * time.Minute
	// newMonitorPoll is how often a quota that waits for the monitor of a type
	// looks for it.
	newMonitorPoll = 50 * time.Millisecond
)

// buildResourceQuota is upstream's, with the visible types.
func buildResourceQuota(ctx context.Context, env *environment) (func(context.Context), string, error) {
	client, err := env.client("resourcequota-controller")
	if err != nil {
		return nil, "", err
	}
	quotas := &quotaInformer{ResourceQuotaInformer: env.config.Informers.Core().V1().ResourceQuotas()}
	monitors := env.anyInformers.newMonitors()
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(servedListers(env), neverStarted)
	if err != nil {
		return nil, "", fmt.Errorf("make the quota evaluators: %w", err)
	}
	discover := env.visible.namespaced
	controller, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     quotas,
		ResyncPeriod:              func() time.Duration { return quotaPeriod },
		InformerFactory:           monitors,
		ReplenishmentResyncPeriod: resyncPeriod,
		DiscoveryFunc:             func() ([]*metav1.APIResourceList, error) { return discover() },
		IgnoredResourcesFunc:      configuration.IgnoredResources,
		InformersStarted:          env.informersStarted,
		Registry:                  generic.NewRegistry(configuration.Evaluators()),
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
			func(ctx context.Context) { quotas.recalculate(ctx, env.visible, monitors.synced) })
	}, "", nil
}

// quotaInformer is the informer of resource quotas. It can hand a quota to the
// controller again. Upstream calculates a quota without the types that have no
// monitor at that moment, and then not again for minutes; until then, objects of
// such a type are refused.
type quotaInformer struct {
	coreinformers.ResourceQuotaInformer
	mu      sync.Mutex
	handler cache.ResourceEventHandler
}

// Informer implements [coreinformers.ResourceQuotaInformer].
func (q *quotaInformer) Informer() cache.SharedIndexInformer {
	return handlerCapture{q.ResourceQuotaInformer.Informer(), q}
}

// handlerCapture remembers the handler of the controller.
type handlerCapture struct {
	cache.SharedIndexInformer
	of *quotaInformer
}

// AddEventHandlerWithResyncPeriod implements [cache.SharedInformer].
func (c handlerCapture) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	c.of.mu.Lock()
	c.of.handler = handler
	c.of.mu.Unlock()
	return c.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
}

// recalculate hands quotas to the controller again when the types that they name
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

// calculate hands the quotas that name one of the types to the controller.
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

// neverStarted gives upstream's evaluators for pods and devices the informers
// that they ask for at construction. They are not served and not watched.
var neverStarted = informers.NewSharedInformerFactory(nil, 0)

// servedListers finds listers among the shared informers. What is not served
// has none: a quota on pods is accepted and shows 0 used, as on a
// kube-apiserver where nobody creates pods.
func servedListers(env *environment) quota.ListerForResourceFunc {
	served := generic.ListerFuncForResourceFunc(env.config.Informers.ForResource)
	return func(resource schema.GroupVersionResource) (cache.GenericLister, error) {
		if env.config.Types.Serves(resource) {
			return served(resource)
		}
		return cache.NewGenericLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), resource.GroupResource()), nil
	}
}
