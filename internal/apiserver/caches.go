package apiserver

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
	aggregatorinformers "k8s.io/kube-aggregator/pkg/client/informers/externalversions"
)

// cacheFillTimeout bounds the wait for the caches before the post-start hooks run.
const cacheFillTimeout = 300 * time.Millisecond

// informerFactory has the methods of the generated factories that caches uses.
type informerFactory interface {
	StartWithContext(ctx context.Context)
	WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool
}

// caches fills the caches of the informers before the post-start hooks run, so that
// controllers and admission plugins need not poll for them.
type caches struct {
	stores    func(context.Context) error // waits for the watch caches of the stores
	factories []informerFactory
	started   func()          // called when the factories have been started
	ctx       context.Context // of the informers
	stop      context.CancelFunc
}

// newCaches returns caches that are not filled yet. The caller calls stop, unless it
// calls endWith and the server runs.
func newCaches(ctx context.Context, stores func(context.Context) error) *caches {
	c := &caches{stores: stores, started: func() {}}
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	return c
}

// endWith stops the informers together with those that post-start hooks start: when the
// server accepts no more requests, before it destroys the storage.
func (c *caches) endWith(server *genericapiserver.GenericAPIServer) error {
	err := server.AddPostStartHook("kube-hyper-mini-caches", func(hook genericapiserver.PostStartHookContext) error {
		context.AfterFunc(hook, c.stop)
		return nil
	})
	if err != nil {
		return fmt.Errorf("add the hook that stops the informers: %w", err)
	}
	return nil
}

// fill starts the informers when the watch caches of the stores are filled: an informer
// that is refused before that retries after a second. It returns when they have listed
// all objects, or after cacheFillTimeout: code that needs a cache then waits for it, as in
// kube-apiserver. Audit events of these requests are buffered until the server runs.
func (c *caches) fill(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, cacheFillTimeout)
	defer cancel()
	_ = c.stores(bounded) // at the timeout the informers start nevertheless
	for _, factory := range c.factories {
		factory.StartWithContext(c.ctx)
	}
	c.started()
	for _, factory := range c.factories {
		factory.WaitForCacheSync(bounded.Done())
	}
}

// readyInformers are the informers of the API server. The readiness check informer-sync
// waits for those that were started with the server. The controllers start others later,
// for types whose first object comes, and do not make the server unready.
type readyInformers struct {
	informers.SharedInformerFactory
	own atomic.Pointer[map[reflect.Type]bool] // nil until settle
}

// Admissionregistration implements [informers.SharedInformerFactory]. Policy plugins
// check whether the informers have synced, and then again every 100 ms: here each check waits up to
// 100 ms.
func (f *readyInformers) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(awaitedInformers{f.SharedInformerFactory}, metav1.NamespaceAll, nil)
}

type awaitedInformers struct {
	informers.SharedInformerFactory
}

// InformerFor implements [informers.SharedInformerFactory].
func (f awaitedInformers) InformerFor(o runtime.Object,
	make internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return awaitedInformer{f.SharedInformerFactory.InformerFor(o, make)}
}

type awaitedInformer struct{ cache.SharedIndexInformer }

// HasSynced implements [cache.SharedIndexInformer].
func (i awaitedInformer) HasSynced() bool {
	select {
	case <-i.HasSyncedChecker().Done():
		return true
	case <-time.After(syncPatience):
		return false
	}
}

// syncPatience is the interval at which upstream looks whether an informer has synced.
const syncPatience = 100 * time.Millisecond

// settle determines the informers of the server: those that were started by now.
func (f *readyInformers) settle() {
	now := make(chan struct{})
	close(now)
	own := f.SharedInformerFactory.WaitForCacheSync(now)
	f.own.Store(&own)
}

// WaitForCacheSync implements [informers.SharedInformerFactory].
func (f *readyInformers) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	synced := f.SharedInformerFactory.WaitForCacheSync(stop)
	if own := f.own.Load(); own != nil {
		maps.DeleteFunc(synced, func(informer reflect.Type, _ bool) bool {
			_, found := (*own)[informer]
			return !found
		})
	}
	return synced
}

// ForResource implements [informers.SharedInformerFactory]. Policies make dynamic informers for
// parameters without an informer here: these lack the data of config maps and secrets (see
// [servedtypes.DropUnread]).
func (f *readyInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if resource.Group == corev1.GroupName && (resource.Resource == "configmaps" || resource.Resource == "secrets") {
		return nil, fmt.Errorf("the informers of %s have no data", resource.Resource)
	}
	return f.SharedInformerFactory.ForResource(resource)
}

// allInformers are the informers of built-in types and of APIServices. The informer of APIServices
// leaves out those of CRDs, which have no owner.
type allInformers struct {
	informers.SharedInformerFactory
	registrations aggregatorinformers.SharedInformerFactory
}

// ForResource implements [informers.SharedInformerFactory].
func (f allInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if informer, err := f.registrations.ForResource(resource); err == nil {
		return informer, nil
	}
	return f.SharedInformerFactory.ForResource(resource)
}
