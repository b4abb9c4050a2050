package aggregation

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	informers "k8s.io/kube-aggregator/pkg/client/informers/externalversions/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"

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

// Documents fetches the discovery, OpenAPI v2 and v3 documents of remote API servers,
// and answers the sinks from these copies. Upstream's sinks send requests to the
// servers, where one slow server delays all others.
type Documents struct {
	caller *Caller
	lister listers.APIServiceLister
	synced cache.InformerSynced
	loop   *reconcile.Loop[string]
	log    *slog.Logger

	discovery aggregatorapiserver.DiscoveryAggregationController
	openAPI   atomic.Pointer[kube.OpenAPISinks] // nil until OpenAPIBuilt

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
		d.discovery.AddAPIService(service, c) // under mu, so that forget's call comes later
	}
	d.mu.Unlock()
	if c != nil || service.Spec.Service != nil {
		d.loop.Add(service.Name)
	}
}

// Run follows the APIServices until ctx ends and passes each remote one to the sinks. That for
// discovery must not run before [Documents.Listed] is closed.
func (d *Documents) Run(ctx context.Context, discovery aggregatorapiserver.DiscoveryAggregationController) {
	d.discovery = discovery
	if !cache.WaitForCacheSync(ctx.Done(), d.synced) {
		d.loop.Stop()
		return
	}
	services, _ := d.lister.List(labels.Everything()) // the cache does not fail
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

// OpenAPIBuilt has OpenAPI of all servers fetched, now and later. Until then it is not: the
// sinks are made at the first request for OpenAPI, and discovery must not wait for it.
func (d *Documents) OpenAPIBuilt(sinks kube.OpenAPISinks) {
	d.openAPI.Store(&sinks)
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.caches {
		d.loop.Add(name)
	}
}

func (d *Documents) handle(ctx context.Context, name string) reconcile.Result {
	service, err := d.lister.Get(name)
	switch {
	case err != nil || service.Spec.Service == nil:
		d.forget(name)
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
		d.discovery.AddAPIService(service, c)
	}
	return c
}

// publishDiscovery passes a renewed cache to discovery, unless the APIService was changed or
// deleted during the fetch.
func (d *Documents) publishDiscovery(name string, c *documentCache) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if service, err := d.lister.Get(name); err == nil && service.Spec.Service != nil && d.caches[name] == c {
		d.discovery.AddAPIService(service, c)
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
		if sinks := d.openAPI.Load(); err == nil && sinks != nil {
			err = f.openAPI(ctx, *sinks)
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
func (d *Documents) forget(name string) {
	d.mu.Lock()
	_, known := d.caches[name]
	if known {
		delete(d.caches, name)
		d.discovery.RemoveAPIService(name)
	}
	d.mu.Unlock()
	if sinks := d.openAPI.Load(); known && sinks != nil {
		sinks.V2.RemoveAPIService(name)
		sinks.V3.RemoveAPIServiceSpec(name)
	}
}

func isAvailable(service *apiregistrationv1.APIService) bool {
	return helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available)
}

const (
	// maxDocument bounds the memory for a document, in bytes. OpenAPI of all of
	// Kubernetes is 6 MB.
	maxDocument = 64 << 20
	// failuresBeforeLog is the number of failed fetches in a row before they are logged.
	// That a server has ended is logged before, as unavailable.
	failuresBeforeLog = 2
)

const (
	groupsPath    = "/apis"
	openAPIV2Path = "/openapi/v2"
	openAPIV3Path = "/openapi/v3"
)

// documentCache holds the discovery and OpenAPI documents of the server of an
// APIService. As a handler it answers the sinks from memory, with 503 if it has no
// document.
type documentCache struct {
	v3     *handler3.OpenAPIService
	v3Mux  *mux.PathRecorderMux // the handler for OpenAPI v3
	v3Path string

	// Used by the worker that fetches; there is one at a time.
	inV2, inV3 bool // whether the sink has the document
	failures   int

	mu        sync.RWMutex
	available bool
	answers   map[string]*answer // by path
}

// answer is a document as it was received. An OpenAPI document, which can be large, has
// no body after the sink has read it.
type answer struct {
	contentType string
	etag        string // for If-None-Match
	digest      [sha256.Size]byte
	body        []byte
}

func newDocumentCache(service *apiregistrationv1.APIService) *documentCache {
	c := &documentCache{
		v3: handler3.NewOpenAPIService(), v3Mux: mux.NewPathRecorderMux(service.Name),
		v3Path:    openAPIV3Path + kube.DiscoveryPath(service),
		available: isAvailable(service), answers: map[string]*answer{},
	}
	_ = c.v3.RegisterOpenAPIV3VersionedService(openAPIV3Path, c.v3Mux) // always nil
	return c
}

// setAvailable records the Available condition. If it is false, the discovery
// documents are dropped.
func (c *documentCache) setAvailable(available bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.available = available
	if !available {
		maps.DeleteFunc(c.answers, func(path string, _ *answer) bool { return path != openAPIV2Path && path != c.v3Path })
	}
}

func (c *documentCache) get(path string) *answer {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.answers[path]
}

// put keeps an answer; nil removes it.
func (c *documentCache) put(path string, a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a == nil {
		delete(c.answers, path)
		return
	}
	c.answers[path] = a
}

// ServeHTTP implements [http.Handler] for the sinks.
func (c *documentCache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.RLock()
	available, a := c.available, c.answers[r.URL.Path]
	empty := len(c.answers) == 0
	c.mu.RUnlock()
	switch {
	case !available && r.URL.Path != openAPIV2Path, empty:
		http.Error(w, "the server's documents have not been read", http.StatusServiceUnavailable)
	case a == nil || a.body == nil:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", a.contentType)
		if a.etag != "" {
			w.Header().Set("Etag", a.etag)
		}
		_, _ = w.Write(a.body) // into memory
	}
}

// withoutBody returns the answer without its body.
func (a *answer) withoutBody() *answer {
	return &answer{contentType: a.contentType, etag: a.etag, digest: a.digest}
}
