package controllers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// stopDelay is the time from the release of an informer until it stops: events of the last
// objects of a deleted type may still be queued.
const stopDelay = time.Minute

// informerSet has the informers that garbage collector and quota share: the typed
// informers of the API server, informers of stored objects for custom resources, and
// metadata informers for all other types. Upstream's set never stops an informer. This one
// stops that of a deleted type, when the controllers have stopped their monitors.
type informerSet struct {
	ctx    context.Context // ends the informers and the requests of listers
	typed  informers.SharedInformerFactory
	client metadata.Interface
	// follow returns the feed of a custom resource of this server, and nil for other
	// types; it may be nil.
	follow func(schema.GroupResource) (Feed, error)
	// remote reports whether an aggregated API server serves a group version; it may be
	// nil.
	remote func(schema.GroupVersion) bool
	// content knows the revisions of built-in resources; it may be nil.
	content Population
	log     *slog.Logger
	// typedStop stops the typed informers; if nil, they stop with the others. A factory
	// starts an informer only once: when the controllers start again, they use the same ones.
	typedStop <-chan struct{}

	running sync.WaitGroup
	mu      sync.Mutex
	ended   bool // no informer starts
	watched map[schema.GroupVersionResource]*watchedType
}

// watchedType is a type and its informer.
type watchedType struct {
	resource schema.GroupVersionResource
	informer informers.GenericInformer
	typed    bool               // the API server uses the informer, too
	remote   bool               // the informer is one of an aggregated API server
	stop     context.CancelFunc // nil before the start
	monitors int                // not released yet
}

func newInformerSet(ctx context.Context, typed informers.SharedInformerFactory,
	client metadata.Interface) *informerSet {
	return &informerSet{ctx: ctx, typed: typed, client: client, watched: map[schema.GroupVersionResource]*watchedType{}}
}

// acquire returns the informer of a type for one more monitor.
func (s *informerSet) acquire(resource schema.GroupVersionResource) *watchedType {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.watched[resource]
	if known == nil {
		known = s.newWatchedType(resource)
		s.watched[resource] = known
	}
	known.monitors++
	return known
}

// release ends the use of an informer by one monitor.
func (s *informerSet) release(known *watchedType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known.monitors--; known.monitors > 0 || known.typed {
		return
	}
	delete(s.watched, known.resource)
	if known.stop != nil {
		time.AfterFunc(stopDelay, known.stop)
	}
}

// lister returns a lister of the informer of a type if that has synced, otherwise a
// lister that queries the API server.
func (s *informerSet) lister(resource schema.GroupVersionResource) cache.GenericLister {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.watched[resource]; known != nil && known.informer.Informer().HasSynced() {
		return known.informer.Lister()
	}
	return newLiveLister(s.ctx, s.client.Resource(resource))
}

func (s *informerSet) newWatchedType(resource schema.GroupVersionResource) *watchedType {
	if informer, err := s.typed.ForResource(resource); err == nil {
		informer.Informer() // registers it, so that Start starts it
		return &watchedType{resource: resource, informer: informer, typed: true}
	}
	remote := s.isRemote(resource)
	if feed := s.feed(resource, remote); feed != nil {
		return &watchedType{resource: resource, informer: storedType{newStoredInformer(resource, feed, s.log)}}
	}
	informer := metadatainformer.NewFilteredMetadataInformer(s.client, resource, metav1.NamespaceAll, resyncPeriod(),
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	// These return an error only if the informer has started.
	_ = informer.Informer().SetTransform(keepForMonitors)
	_ = informer.Informer().SetWatchErrorHandlerWithContext(watchFailed)
	return &watchedType{resource: resource, informer: informer, remote: remote}
}

// isRemote reports whether an aggregated API server serves the type.
func (s *informerSet) isRemote(resource schema.GroupVersionResource) bool {
	return s.remote != nil && s.remote(resource.GroupVersion())
}

// moved returns a type that is served by this API server instead of an aggregated one, or the
// reverse, since its informer was made; an empty one if there is none.
func (s *informerSet) moved() schema.GroupVersionResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	for resource, known := range s.watched {
		if !known.typed && known.remote != s.isRemote(resource) {
			return resource
		}
	}
	return schema.GroupVersionResource{}
}

// feed returns the feed of a custom resource of this server, or nil.
func (s *informerSet) feed(resource schema.GroupVersionResource, remote bool) Feed {
	if s.follow == nil || remote {
		return nil
	}
	feed, err := s.follow(resource.GroupResource())
	if err != nil {
		s.log.Warn("cannot follow the objects of a type in etcd, watching them by the API", "type",
			resource.GroupResource().String(), "error", err)
		return nil
	}
	return feed
}

// watchFailed is a watch error handler. That a type was deleted is logged for debugging only.
func watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(1).Info("the server has a watched type no longer", "error", err)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// keepForMonitors is a [cache.TransformFunc] that drops the metadata that neither
// garbage collector nor quota reads. Annotations may be larger than the rest of an
// object.
func keepForMonitors(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil {
		accessor.SetManagedFields(nil)
		accessor.SetAnnotations(nil)
		accessor.SetLabels(nil)
	}
	return obj, nil
}

// Start implements [informerfactory.InformerFactory].
func (s *informerSet) Start(stop <-chan struct{}) {
	if s.typedStop != nil {
		stop = s.typedStop
	}
	s.typed.Start(stop)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watched := range s.watched {
		if watched.stop == nil && !watched.typed && !s.ended {
			ctx, cancel := context.WithCancel(s.ctx)
			watched.stop = cancel
			s.running.Go(func() { watched.informer.Informer().RunWithContext(ctx) })
		}
	}
}

// run returns when ctx and that of the set have ended and all informers have stopped.
func (s *informerSet) run(ctx context.Context) {
	<-ctx.Done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

// liveLister is a [cache.GenericLister] without a cache: it reads the metadata of the
// objects from the API server. ctx ends its requests; the interface has none.
type liveLister struct {
	ctx       context.Context
	objects   metadata.ResourceInterface
	namespace func(string) metadata.ResourceInterface
}

func newLiveLister(ctx context.Context, client metadata.Getter) liveLister {
	return liveLister{ctx, client, client.Namespace}
}

// List implements [cache.GenericLister].
func (l liveLister) List(selector labels.Selector) ([]runtime.Object, error) {
	list, err := l.objects.List(l.ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	objects := make([]runtime.Object, len(list.Items))
	for i := range list.Items {
		objects[i] = &list.Items[i]
	}
	return objects, nil
}

// Get implements [cache.GenericLister].
func (l liveLister) Get(name string) (runtime.Object, error) {
	return l.objects.Get(l.ctx, name, metav1.GetOptions{})
}

// ByNamespace implements [cache.GenericLister].
func (l liveLister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return liveLister{ctx: l.ctx, objects: l.namespace(namespace)}
}
