package controllers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/controller-manager/pkg/clientbuilder"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
)

// resync is the base of the informers' resync period. Upstream's is 12 h,
// spread between once and twice that (--min-resync-period).
const resync = 12 * time.Hour

// cacheHeadStart bounds what the caches get before the controllers run.
const cacheHeadStart = 300 * time.Millisecond

// environment is what the controllers share.
type environment struct {
	config   Config
	selected []string
	builder  clientbuilder.ControllerClientBuilder
	types    *discoverer
	mapper   meta.ResettableRESTMapper
	metadata metadata.Interface
	dynamic  *dynamic.DynamicClient

	anyInformers     *informerSet
	informersStarted chan struct{}

	// graph is the garbage collector's, which storage version migration reads.
	graph *garbagecollector.GraphBuilder
	// background work that belongs to no single controller.
	background []func(context.Context)
}

func newEnvironment(ctx context.Context, cfg Config, selected []string) (*environment, error) {
	client := rest.CopyConfig(cfg.Client)
	client.QPS = -1 // flow control is the server's job
	builder := clientbuilder.SimpleControllerClientBuilder{ClientConfig: client}
	metadataClient, err := metadata.NewForConfig(withAgent(client, "metadata-informers"))
	if err != nil {
		return nil, fmt.Errorf("make the metadata client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(withAgent(client, "controllers"))
	if err != nil {
		return nil, fmt.Errorf("make the dynamic client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(withAgent(client, "controller-discovery"))
	if err != nil {
		return nil, fmt.Errorf("make the discovery client: %w", err)
	}
	types := newDiscoverer(discoveryClient, cfg.Log)
	cfg.Types.OnChange(types.changed)
	anyInformers := newInformerSet(cfg.Informers, metadataClient, types.known)
	env := &environment{
		config:           cfg,
		selected:         selected,
		builder:          builder,
		types:            types,
		mapper:           restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient)),
		metadata:         metadataClient,
		dynamic:          dynamicClient,
		anyInformers:     anyInformers,
		informersStarted: make(chan struct{}),
		background:       []func(context.Context){types.run, anyInformers.run},
	}
	env.graph = garbagecollector.NewDependencyGraphBuilder(ctx, metadataClient, env.mapper,
		garbagecollector.DefaultIgnoredResources(), env.anyInformers, env.informersStarted)
	return env, nil
}

func withAgent(client *rest.Config, name string) *rest.Config {
	return rest.AddUserAgent(rest.CopyConfig(client), name)
}

// client returns a clientset whose user agent names the controller.
func (e *environment) client(name string) (kubernetes.Interface, error) {
	client, err := e.builder.Client(name)
	if err != nil {
		return nil, fmt.Errorf("make the client: %w", err)
	}
	return client, nil
}

func (e *environment) startInformers(ctx context.Context) {
	e.anyInformers.Start(ctx.Done())
	close(e.informersStarted)
}

// fillCaches gives the shared caches a moment: a controller that finds one
// empty looks again after 100 ms (cache.WaitForCacheSync). It is no more than a
// moment, because a type that cannot be listed concerns some controllers only.
func (e *environment) fillCaches(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cacheHeadStart)
	defer cancel()
	e.config.Informers.WaitForCacheSync(ctx.Done())
}

// waitForInformers waits for the shared caches; what a controller sees later
// it waits for itself.
func (e *environment) waitForInformers(ctx context.Context) error {
	for informer, synced := range e.config.Informers.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the controllers' cache of %s did not fill: %w", informer, context.Cause(ctx))
		}
	}
	return nil
}

func resyncPeriod() time.Duration {
	return time.Duration(float64(resync) * (1 + rand.Float64()))
}
