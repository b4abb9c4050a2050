package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
)

const (
	// The numbers of workers are kube-controller-manager's defaults.
	gcWorkers    = 20
	quotaWorkers = 5
	// syncPeriod is how often garbage collector and quota look for new types
	// of their own accord. The discoverer wakes them earlier.
	syncPeriod = 30 * time.Second
	// quotaPeriod is how often quota is recalculated without a reason
	// (--resource-quota-sync-period).
	quotaPeriod = 5 * time.Minute
)

// garbageCollector is the garbage collector's service account.
const garbageCollector = "generic-garbage-collector"

// buildGarbageCollector is upstream's, with its types from the discoverer.
func buildGarbageCollector(ctx context.Context, env *environment) (func(context.Context), string, error) {
	client, err := env.client(garbageCollector)
	if err != nil {
		return nil, "", err
	}
	objects, err := env.metadata(garbageCollector)
	if err != nil {
		return nil, "", err
	}
	gc, err := garbagecollector.NewComposedGarbageCollector(ctx, client, objects, env.mapper, env.graph)
	if err != nil {
		return nil, "", err
	}
	return func(ctx context.Context) {
		concurrently(ctx,
			func(ctx context.Context) { gc.Run(ctx, gcWorkers, syncPeriod) },
			func(ctx context.Context) {
				env.types.follow(ctx, func(ctx context.Context) { gc.Sync(ctx, env.types, syncPeriod) })
			})
	}, "", nil
}

// buildResourceQuota is upstream's, with its types from the discoverer.
func buildResourceQuota(ctx context.Context, env *environment) (func(context.Context), string, error) {
	client, err := env.client("resourcequota-controller")
	if err != nil {
		return nil, "", err
	}
	quotas := env.config.Informers.Core().V1().ResourceQuotas()
	configuration, err := quotainstall.NewQuotaConfigurationForControllers(servedListers(env), neverStarted)
	if err != nil {
		return nil, "", fmt.Errorf("make the quota evaluators: %w", err)
	}
	// The constructor asks discovery and accepts only what it can monitor.
	env.types.fresh()
	discover := env.types.knownNamespacedResources
	controller, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     quotas,
		ResyncPeriod:              func() time.Duration { return quotaPeriod },
		InformerFactory:           env.anyInformers,
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
				env.types.follow(ctx, func(ctx context.Context) { controller.Sync(ctx, discover, syncPeriod) })
			})
	}, "", nil
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

// concurrently runs the functions and returns when all have.
func concurrently(ctx context.Context, functions ...func(context.Context)) {
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(func() { f(ctx) })
	}
	running.Wait()
}
