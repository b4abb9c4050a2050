package controllers

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// quotaPeriod is the interval at which all quotas are recalculated
	// (--resource-quota-sync-period).
	quotaPeriod = 5 * time.Minute
)

// buildResourceQuota builds upstream's controller with the visible types.
func buildResourceQuota(ctx context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	monitors := env.newMonitors()
	monitors.patience = 2 * maxDelay
	// The constructors of upstream's evaluators of pods and devices need informers. These types
	// are not served, and the informers are not started.
	neverStarted := informers.NewSharedInformerFactory(nil, 0)
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(servedListers(env), neverStarted)
	if err != nil {
		return nil, fmt.Errorf("make the quota evaluators: %w", err)
	}
	quotas := &kube.QuotaInformer{ResourceQuotaInformer: env.informers.core().V1().ResourceQuotas()}
	evaluators := &evaluators{
		types: env.types, informers: env.monitorInformers, recalculate: quotas.Recalculate,
		ignored: configuration.IgnoredResources(), registry: generic.NewRegistry(configuration.Evaluators()),
	}
	discover := func() ([]*metav1.APIResourceList, error) {
		evaluators.addAll() // otherwise upstream adds its own, with the monitors
		return env.visible.namespaced()
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
		return nil, err
	}
	return func(ctx context.Context) {
		concurrently(ctx,
			func(ctx context.Context) { controller.Run(ctx, workers) },
			func(ctx context.Context) {
				env.visible.follow(ctx, func(ctx context.Context) { controller.Sync(ctx, discover, syncPeriod) })
			},
			evaluators.run)
	}, nil
}

// evaluators has the quota evaluators of all types. Upstream adds the evaluator of a type
// with its monitor. A quota that names a type without an evaluator refuses objects of
// that type.
type evaluators struct {
	types     *discoverer
	informers *informerSet
	ignored   map[schema.GroupResource]struct{}
	// recalculate has the quotas calculated again for which affected returns true.
	recalculate func(affected func(*corev1.ResourceQuota) bool)

	mu       sync.Mutex
	registry quota.Registry
}

// run adds the evaluators of new types until ctx ends.
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

// addAll adds the evaluators of the namespaced types that a quota can count, and has the
// quotas calculated again that name a type which had none. Evaluators of types that are gone
// stay, as upstream's.
func (e *evaluators) addAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	// An error means an invalid group version, which has no types.
	types, _ := resourcequota.GetQuotableResources(e.types.namespaced)
	var added []schema.GroupResource
	for gvr := range types {
		resource := gvr.GroupResource()
		if _, ignored := e.ignored[resource]; !ignored && e.registry.Get(resource) == nil {
			// In the version that controllers monitor then, not in the one that is served now.
			list := func(namespace string) ([]runtime.Object, error) {
				return e.informers.list(e.types.inPreferredVersion(gvr), namespace)
			}
			e.registry.Add(generic.NewObjectCountEvaluator(resource, list, ""))
			added = append(added, resource)
		}
	}
	if len(added) > 0 {
		e.recalculate(func(quota *corev1.ResourceQuota) bool { return sets.KeySet(quotaTypes(quota)).HasAny(added...) })
	}
}

// namedTypes returns the types that the ResourceQuotas and StorageVersionMigrations in stores
// name. They need a monitor even without objects: quota must get the deletion of the first
// object, and a migration reads the monitor of its type.
func namedTypes(stores []cache.Store) map[schema.GroupResource]bool {
	types := map[schema.GroupResource]bool{}
	for _, store := range stores {
		for _, obj := range store.List() {
			maps.Copy(types, typesNamedBy(obj))
		}
	}
	return types
}

// wakeWhenNamed returns a handler that has the visible types updated when an object names a
// type.
func wakeWhenNamed(v *visibleTypes) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { v.wake() },
		UpdateFunc: func(before, after any) {
			if !maps.Equal(typesNamedBy(before), typesNamedBy(after)) {
				v.wake()
			}
		},
	}
}

// typesNamedBy returns the types that a ResourceQuota or a StorageVersionMigration names.
func typesNamedBy(obj any) map[schema.GroupResource]bool {
	switch obj := obj.(type) {
	case *corev1.ResourceQuota:
		return quotaTypes(obj)
	case *migrationv1beta1.StorageVersionMigration:
		return map[schema.GroupResource]bool{schema.GroupResource(obj.Spec.Resource): true}
	}
	return nil
}

// quotaTypes are the types whose objects the quota counts: "count/widgets.example.com"
// or, of a built-in type, "configmaps".
func quotaTypes(quota *corev1.ResourceQuota) map[schema.GroupResource]bool {
	types := map[schema.GroupResource]bool{}
	for name := range quota.Spec.Hard {
		types[schema.ParseGroupResource(strings.TrimPrefix(string(name), "count/"))] = true
	}
	return types
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
