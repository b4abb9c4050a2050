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
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// documentWorkers is the number of concurrent fetches. A server that does not
	// answer occupies a worker for the timeout of a document.
	documentWorkers = 20
	// minRefetch and maxRefetch bound the wait after a failure.
	minRefetch = time.Second
	maxRefetch = time.Minute
)

// Sinks are the parts of Kubernetes that merge the documents of all API servers.
type Sinks = kube.Sinks

// Documents fetches the discovery, OpenAPI v2 and v3 documents of remote API servers,
// and answers the sinks from these copies. Upstream's sinks send requests to the
// servers, where one slow server delays all others.
type Documents struct {
	caller *Caller
	lister listers.APIServiceLister
	synced cache.InformerSynced
	loop   *reconcile.Loop[string]
	log    *slog.Logger
	sinks  Sinks

	mu     sync.Mutex
	caches map[string]*documentCache // by APIService

	listed chan struct{} // closed when discovery has all remote APIServices
}

// NewDocuments prepares the copies. Call it before the informers start.
func NewDocuments(caller *Caller, services informers.APIServiceInformer, log *slog.Logger) (*Documents, error) {
	d := &Documents{
		caller: caller, lister: services.Lister(), log: log, caches: map[string]*documentCache{}, listed: make(chan struct{}),
	}
	// The queue has no name: one would add metrics and wake the process twice a second.
	d.loop = reconcile.New(reconcile.Config[string]{Workers: documentWorkers, MinRetry: minRefetch,
		MaxRetry: maxRefetch, Handle: d.handle})
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

// changed passes the availability of the server to discovery at once, and queues the
// fetch of its documents.
func (d *Documents) changed(obj any) {
	service, ok := reconcile.Deleted[*apiregistrationv1.APIService](obj)
	if !ok {
		return
	}
	d.mu.Lock()
	c := d.caches[service.Name]
	if c != nil && service.Spec.Service != nil {
		c.setAvailable(isAvailable(service))
		d.sinks.Discovery.AddAPIService(service, c) // under mu, so that forget's call comes later
	}
	d.mu.Unlock()
	if c != nil || service.Spec.Service != nil {
		d.loop.Add(service.Name)
	}
}

// Run follows the APIServices until ctx ends and passes each remote one to sinks. The
// discovery sink must not run before [Documents.Listed] is closed.
func (d *Documents) Run(ctx context.Context, sinks Sinks) {
	d.sinks = sinks
	if !cache.WaitForCacheSync(ctx.Done(), d.synced) {
		d.loop.Stop()
		return
	}
	services, err := d.lister.List(labels.Everything())
	if err != nil {
		services = nil // the cache does not fail
	}
	for _, service := range services {
		if service.Spec.Service != nil {
			d.cacheOf(service)
		}
	}
	close(d.listed)
	d.loop.Run(ctx)
}

// Listed is closed when the discovery sink has all APIServices of the start. A group is listed as
// stale until its documents have been fetched.
func (d *Documents) Listed() <-chan struct{} { return d.listed }

func (d *Documents) handle(ctx context.Context, name string) reconcile.Result {
	service, err := d.lister.Get(name)
	switch {
	case err != nil || service.Spec.Service == nil:
		d.forget(ctx, name)
	case !isAvailable(service):
		d.cacheOf(service)
	case d.refresh(ctx, service):
		return reconcile.After(kube.DocumentsPeriod)
	default:
		return reconcile.Retry()
	}
	return reconcile.Done()
}

// cacheOf returns the cache of an APIService. The first call adds it to discovery.
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

// publishDiscovery passes a renewed cache to discovery, unless the APIService was changed or
// deleted during the fetch.
func (d *Documents) publishDiscovery(name string, c *documentCache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if service, err := d.lister.Get(name); err == nil && service.Spec.Service != nil && d.caches[name] == c {
		d.sinks.Discovery.AddAPIService(service, c)
	}
}

// refresh fetches the documents of an available server and reports whether that
// succeeded.
func (d *Documents) refresh(ctx context.Context, service *apiregistrationv1.APIService) bool {
	c := d.cacheOf(service)
	client, err := d.caller.client(service)
	if err == nil {
		f := &fetching{client: client, caller: d.caller, service: service, documentCache: c}
		err = f.discovery(ctx)
		d.publishDiscovery(service.Name, c)
		if err == nil {
			err = f.openAPI(ctx, d.sinks)
		}
	}
	switch {
	case err == nil:
		if c.failures >= failuresBeforeLog {
			d.log.Info("discovery and OpenAPI of an aggregated API server can be read again", "apiService", service.Name)
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
		d.log.Warn("discovery or OpenAPI of an aggregated API server cannot be read", "apiService",
			service.Name, "error", err)
	}
	return false
}

// forget removes an APIService from the merged documents.
func (d *Documents) forget(ctx context.Context, name string) {
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
	if sinks, err := d.sinks.OpenAPI(ctx); err == nil { // otherwise nothing was added
		sinks.V2.RemoveAPIService(name)
		sinks.V3.RemoveAPIServiceSpec(name)
	}
}

func isAvailable(service *apiregistrationv1.APIService) bool {
	return helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available)
}
