package aggregation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	openapiv2 "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	openapiv3 "k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// Upstream fact: who asks remote servers for discovery and OpenAPI
//
// Mirrors: k8s.io/kube-aggregator/pkg/apiserver.DiscoveryAggregationController
//   k8s.io/kube-aggregator/pkg/apiserver.discoveryManager.fetchFreshDiscoveryForService
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.SpecAggregator
//   k8s.io/kube-aggregator/pkg/controllers/openapiv3/aggregator.SpecProxier
//   k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator.Downloader.Download
// Why: the parts of Kubernetes that merge the documents ask the servers
//   themselves, and hold locks meanwhile that all readers of the merged
//   documents wait for.
// Gain: with an aggregated server that does not answer, the slowest request
//   for OpenAPI takes 0.05 s instead of 60 s (bench, silent-remote).
// Breaks: documents of remote servers are missing or old.

const (
	// documentWorkers fetch at the same time. A server that never answers holds
	// one for as long as a document may take.
	documentWorkers = 20
	// refreshPeriod is upstream's, of discovery and OpenAPI.
	refreshPeriod = time.Minute
	// minRefetch and maxRefetch bound the wait after a failure.
	minRefetch = time.Second
	maxRefetch = time.Minute
)

// Sinks are upstream's parts that merge the documents of all API servers. They
// ask a handler for each remote APIService, and hold locks meanwhile that
// block all readers of the merged documents.
type Sinks struct {
	Discovery aggregatorapiserver.DiscoveryAggregationController
	OpenAPIV2 openapiv2.SpecAggregator
	OpenAPIV3 openapiv3.SpecProxier
}

// Documents fetches the discovery, OpenAPI v2 and v3 documents of remote API
// servers and answers the sinks from copies. Upstream's sinks ask the servers
// themselves, where one slow server delays all others.
type Documents struct {
	caller *Caller
	lister listers.APIServiceLister
	synced cache.InformerSynced
	loop   *reconcile.Loop[string]
	log    *slog.Logger
	sinks  Sinks

	mu     sync.Mutex
	caches map[string]*documentCache // by APIService

	discoveryFetched chan struct{}   // closed when pending is empty
	pending          map[string]bool // APIServices that the start waits for, by name
}

// NewDocuments prepares the copies. Call it before the informers start.
func NewDocuments(caller *Caller, services informers.APIServiceInformer, log *slog.Logger) (*Documents, error) {
	d := &Documents{
		caller: caller, lister: services.Lister(), log: log, caches: map[string]*documentCache{}, discoveryFetched: make(chan struct{}),
	}
	// Without a name, which would give it metrics and wake it up twice a second.
	d.loop = reconcile.New(reconcile.Config[string]{Workers: documentWorkers, MinRetry: minRefetch, MaxRetry: maxRefetch, Handle: d.handle})
	handler, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    d.changed,
		UpdateFunc: func(_, current any) { d.changed(current) },
		DeleteFunc: d.changed,
	})
	if err != nil {
		return nil, err
	}
	d.synced = handler.HasSynced
	return d, nil
}

// changed tells discovery at once whether the server is there, and has its
// documents fetched.
func (d *Documents) changed(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	service, ok := obj.(*apiregistrationv1.APIService)
	if !ok {
		return
	}
	d.mu.Lock()
	c := d.caches[service.Name]
	if c != nil && service.Spec.Service != nil {
		c.setAvailable(isAvailable(service))
		d.sinks.Discovery.AddAPIService(service, c) // under mu, that it does not come after forget's
	}
	d.mu.Unlock()
	if c != nil || service.Spec.Service != nil {
		d.loop.Add(service.Name)
	}
}

// Run follows the APIServices until ctx ends. sinks are told of each remote
// one; the discovery sink must not run before [Documents.DiscoveryFetched] is closed.
func (d *Documents) Run(ctx context.Context, sinks Sinks) {
	d.sinks = sinks
	if !cache.WaitForCacheSync(ctx.Done(), d.synced) {
		d.loop.Stop()
		return
	}
	d.startPending()
	d.loop.Run(ctx)
}

// DiscoveryFetched is closed when each server that was available when the process began
// has been asked for its discovery once. One that does not answer takes some
// seconds.
func (d *Documents) DiscoveryFetched() <-chan struct{} { return d.discoveryFetched }

// startPending records the available APIServices as pending, and makes discovery list
// all groups.
func (d *Documents) startPending() {
	services, err := d.lister.List(labels.Everything())
	if err != nil {
		services = nil // the cache does not fail
	}
	d.mu.Lock()
	d.pending = map[string]bool{}
	for _, service := range services {
		if service.Spec.Service != nil && isAvailable(service) {
			d.pending[service.Name] = true
		}
	}
	if len(d.pending) == 0 {
		close(d.discoveryFetched)
	}
	d.mu.Unlock()
	for _, service := range services {
		if service.Spec.Service != nil {
			d.cacheOf(service)
		}
	}
}

// markAsked removes an APIService from the pending ones.
func (d *Documents) markAsked(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[name] {
		if delete(d.pending, name); len(d.pending) == 0 {
			close(d.discoveryFetched)
		}
	}
}

func (d *Documents) handle(ctx context.Context, name string) reconcile.Result {
	service, err := d.lister.Get(name)
	switch {
	case err != nil || service.Spec.Service == nil:
		d.forget(name)
		d.markAsked(name)
	case !isAvailable(service):
		d.cacheOf(service)
		d.markAsked(name)
	case d.refresh(ctx, service):
		return reconcile.After(refreshPeriod)
	default:
		return reconcile.Retry()
	}
	return reconcile.Done()
}

// cacheOf returns the cache of an APIService. From the first time on discovery lists it.
func (d *Documents) cacheOf(service *apiregistrationv1.APIService) *documentCache {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.caches[service.Name]
	if c == nil {
		c = newDocumentCache(service)
		d.caches[service.Name] = c
		d.sinks.Discovery.AddAPIService(service, c)
	}
	return c
}

// fetched has discovery look at a cache that was renewed. That took a while: the
// APIService may be another by now, or gone.
func (d *Documents) fetched(name string, c *documentCache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if service, err := d.lister.Get(name); err == nil && service.Spec.Service != nil && d.caches[name] == c {
		d.sinks.Discovery.AddAPIService(service, c)
	}
}

// refresh fetches the documents of an available server and says whether that
// worked.
func (d *Documents) refresh(ctx context.Context, service *apiregistrationv1.APIService) bool {
	c := d.cacheOf(service)
	client, err := d.caller.client(service)
	if err == nil {
		f := &fetching{client: client, caller: d.caller, service: service, documentCache: c}
		err = f.discovery(ctx)
		d.fetched(service.Name, c)
		d.markAsked(service.Name)
		if err == nil {
			err = f.openAPI(ctx, d.sinks)
		}
	}
	d.markAsked(service.Name)
	switch {
	case err == nil:
		if c.failures >= failuresBeforeLog {
			d.log.Info("discovery and OpenAPI of aggregated API are read again", "apiService", service.Name)
		}
		c.failures = 0
		return true
	case ctx.Err() != nil:
		return true
	}
	switch c.failures++; c.failures {
	case 1:
		d.caller.resolver.Changed(reference(service)) // check its availability
	case failuresBeforeLog:
		d.log.Warn("discovery or OpenAPI of aggregated API cannot be read", "apiService", service.Name, "error", err)
	}
	return false
}

// forget takes an APIService out of the merged documents.
func (d *Documents) forget(name string) {
	d.mu.Lock()
	_, known := d.caches[name]
	if known {
		delete(d.caches, name)
		d.sinks.Discovery.RemoveAPIService(name)
	}
	d.mu.Unlock()
	if !known {
		return
	}
	d.sinks.OpenAPIV2.RemoveAPIService(name)
	d.sinks.OpenAPIV3.RemoveAPIServiceSpec(name)
}

func isAvailable(service *apiregistrationv1.APIService) bool {
	return helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available)
}
