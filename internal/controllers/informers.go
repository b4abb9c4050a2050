package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/servedtypes"
)

const (
	// forgetAfter is how long a type must have been away before its informer
	// ends. Garbage collector and quota hear of it at once; who let go of the
	// informer before they did would leave them with one that sees nothing.
	forgetAfter = time.Minute
	// forgetEvery is how often that is looked at.
	forgetEvery = 15 * time.Second
)

// informerSet is the [informerfactory.InformerFactory] that garbage collector
// and quota share: typed informers where there are some, metadata informers
// for all other types. Upstream's never ends an informer, so that the one of a
// deleted CRD goes on asking, and saying that it gets no answer, for as long
// as the process lives.
type informerSet struct {
	typed  informers.SharedInformerFactory
	client metadata.Interface
	types  func() []*metav1.APIResourceList
	now    func() time.Time

	running sync.WaitGroup
	mu      sync.Mutex
	ended   bool // nothing starts any more
	watched map[schema.GroupVersionResource]*watchedType
}

// watchedType is a type with its informer.
type watchedType struct {
	informer informers.GenericInformer
	stop     context.CancelFunc // nil before the start
	gone     time.Time          // since when it is not served; zero if it is
}

func newInformerSet(typed informers.SharedInformerFactory, client metadata.Interface, types func() []*metav1.APIResourceList) *informerSet {
	return &informerSet{typed: typed, client: client, types: types, now: time.Now, watched: map[schema.GroupVersionResource]*watchedType{}}
}

// ForResource implements [informerfactory.InformerFactory].
func (s *informerSet) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if informer, err := s.typed.ForResource(resource); err == nil {
		return informer, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.watched[resource]; known != nil {
		return known.informer, nil
	}
	informer := metadatainformer.NewFilteredMetadataInformer(s.client, resource, metav1.NamespaceAll, resyncPeriod(),
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil)
	// Nobody here reads managed fields.
	if err := informer.Informer().SetTransform(servedtypes.DropManagedFields); err != nil {
		return nil, fmt.Errorf("prepare the informer of %s: %w", resource, err)
	}
	if err := informer.Informer().SetWatchErrorHandlerWithContext(sayUnlessGone); err != nil {
		return nil, fmt.Errorf("prepare the informer of %s: %w", resource, err)
	}
	s.watched[resource] = &watchedType{informer: informer}
	return informer, nil
}

// sayUnlessGone leaves out that a type is not served: it was deleted.
func sayUnlessGone(ctx context.Context, r *cache.Reflector, err error) {
	if !apierrors.IsNotFound(err) {
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// Start implements [informerfactory.InformerFactory].
func (s *informerSet) Start(stop <-chan struct{}) {
	s.typed.Start(stop)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watched := range s.watched {
		if watched.stop == nil && !s.ended {
			ctx, cancel := context.WithCancel(wait.ContextForChannel(stop))
			watched.stop = cancel
			s.running.Go(func() { watched.informer.Informer().RunWithContext(ctx) })
		}
	}
}

// run ends the informers of types that are gone, until ctx ends, and returns
// when all informers have ended.
func (s *informerSet) run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(context.Context) { s.forget() }, forgetEvery)
	s.mu.Lock()
	s.ended = true
	for _, watched := range s.watched {
		if watched.stop != nil {
			watched.stop()
		}
	}
	s.mu.Unlock()
	s.running.Wait()
}

// forget ends the informers of types that have been away long enough.
func (s *informerSet) forget() {
	served := resources(s.types())
	if len(served) == 0 {
		return // discovery has not answered yet
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for resource, watched := range s.watched {
		switch {
		case served[resource]:
			watched.gone = time.Time{}
		case watched.gone.IsZero():
			watched.gone = now
		case now.Sub(watched.gone) >= forgetAfter:
			if watched.stop != nil {
				watched.stop()
			}
			delete(s.watched, resource)
		}
	}
}
