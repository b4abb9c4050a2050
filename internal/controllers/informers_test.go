package controllers

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func testInformers(t *testing.T) *informerSet {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return newInformerSet(t.Context(), informers.NewSharedInformerFactory(fake.NewClientset(), 0), metadatafake.NewSimpleMetadataClient(scheme))
}

// addMonitor adds a handler as upstream does.
func addMonitor(t *testing.T, m *monitors, resource schema.GroupVersionResource) cache.SharedIndexInformer {
	t.Helper()
	shared, err := m.ForResource(resource)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	return shared.Informer().(monitor).SharedIndexInformer
}

// TestUnusedInformersEnd: the informer of a type ends some time after the type is not
// monitored any more, and that of a type which returns before that stays.
func TestUnusedInformersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := testInformers(t)
		ctx, cancel := context.WithCancel(t.Context())
		set.ctx = ctx
		var monitored atomic.Bool
		monitored.Store(true)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			set.run(ctx, func() map[schema.GroupVersionResource]bool {
				return map[schema.GroupVersionResource]bool{widgets: monitored.Load()}
			})
		}()
		gc, quota := &monitors{set: set}, &monitors{set: set}
		informer := addMonitor(t, gc, widgets)
		if informer != addMonitor(t, quota, widgets) {
			t.Fatal("two controllers do not share an informer")
		}
		set.start(ctx.Done())
		for range 3 { // it returns each time
			monitored.Store(false)
			time.Sleep(unusedCheck * 9 / 10)
			monitored.Store(true)
			time.Sleep(2 * unusedCheck)
		}
		synctest.Wait()
		if informer.IsStopped() || !gc.synced(widgets, time.Time{}) {
			t.Fatal("the informer of a type that is monitored has ended")
		}
		monitored.Store(false)
		time.Sleep(3 * unusedCheck)
		synctest.Wait()
		if !informer.IsStopped() || len(set.watched) != 0 {
			t.Error("the informer of a deleted type has not ended")
		}
		monitored.Store(true)
		if addMonitor(t, gc, widgets) == informer {
			t.Error("a type that returns has the old informer")
		}
		cancel()
		<-ended
	})
}

// TestTypesThatReturnHaveANewInformer: that of the deleted type lists after a growing delay only, and
// what it had listed before must not count for the new type.
func TestTypesThatReturnHaveANewInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := testInformers(t)
		ctx, cancel := context.WithCancel(t.Context())
		set.ctx = ctx
		visible := time.Now()
		set.since = func(schema.GroupVersionResource) time.Time { return visible }
		gc, quota := &monitors{set: set}, &monitors{set: set}
		before := addMonitor(t, gc, widgets)
		addMonitor(t, quota, widgets)
		set.start(ctx.Done())
		time.Sleep(time.Second)
		synctest.Wait()
		if !gc.synced(widgets, visible) {
			t.Fatal("the type is not listed")
		}
		visible = time.Now()
		if gc.synced(widgets, visible) {
			t.Error("the type that is back counts as listed")
		}
		after := addMonitor(t, gc, widgets)
		set.start(ctx.Done())
		synctest.Wait()
		if before.IsStopped() {
			t.Error("the old informer has ended while a controller uses it")
		}
		if after == before || after != addMonitor(t, quota, widgets) {
			t.Error("the type that is back does not have one new informer")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !before.IsStopped() || after.IsStopped() || !gc.synced(widgets, visible) {
			t.Error("the old informer has not ended, or the new one has")
		}
		cancel()
		set.running.Wait()
	})
}

// countedInformer counts its handlers.
type countedInformer struct {
	cache.SharedIndexInformer
	handlers map[cache.ResourceEventHandlerRegistration]bool
}

func (c *countedInformer) Informer() cache.SharedIndexInformer { return c }
func (c *countedInformer) Lister() cache.GenericLister         { return nil }

func (c *countedInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := c.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
	c.handlers[registration] = true
	return registration, err
}

func (c *countedInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	registration, err := c.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, period)
	c.handlers[registration] = true
	return registration, err
}

func (c *countedInformer) RemoveEventHandler(registration cache.ResourceEventHandlerRegistration) error {
	delete(c.handlers, registration)
	return c.SharedIndexInformer.RemoveEventHandler(registration)
}

// TestNoHandlersAreLeftAfterTheEnd: an informer of the API server outlives the controllers of
// one term, and must not keep what they had in memory.
func TestNoHandlersAreLeftAfterTheEnd(t *testing.T) {
	set := testInformers(t)
	typed, err := set.typed.ForResource(configMaps)
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedInformer{typed.Informer(), map[cache.ResourceEventHandlerRegistration]bool{}}
	set.watched[widgets] = &watchedType{informer: counted}
	env := &environment{monitorInformers: set}
	shared, handler := termInformers{countedFactory{set.typed, counted}, env.atEnd}, cache.ResourceEventHandlerFuncs{}
	quotas := &kube.QuotaInformer{ResourceQuotaInformer: core.New(shared, "", nil).V1().ResourceQuotas()}
	_, quotaErr := quotas.Informer().AddEventHandlerWithResyncPeriod(handler, 0)
	_, secretErr := core.New(shared, "", nil).V1().Secrets().Informer().AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
	errs := []error{quotaErr, secretErr}
	for _, informer := range []cache.SharedIndexInformer{
		rbac.New(shared, "", nil).V1().ClusterRoles().Informer(), certificates.New(shared, "", nil).V1().CertificateSigningRequests().Informer(),
		admissionregistration.New(shared, "", nil).V1().ValidatingAdmissionPolicies().Informer(),
		storagemigration.New(shared, "", nil).V1beta1().StorageVersionMigrations().Informer(),
	} {
		_, err := informer.AddEventHandler(handler)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	gc := env.newMonitors()
	addMonitor(t, gc, widgets)
	addMonitor(t, gc, widgets) // replaces the first
	addMonitor(t, env.newMonitors(), widgets)
	if len(counted.handlers) != 8 {
		t.Fatalf("%d handlers while the controllers run", len(counted.handlers))
	}
	env.end()
	if len(counted.handlers) != 0 {
		t.Errorf("%d handlers are left", len(counted.handlers))
	}
}

// countedFactory has one informer for all types.
type countedFactory struct {
	informers.SharedInformerFactory
	counted *countedInformer
}

func (c countedFactory) InformerFor(runtime.Object, internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return c.counted
}

// filledInformer returns an informer that has listed one object.
func filledInformer(t *testing.T, object *metav1.PartialObjectMetadata) informers.GenericInformer {
	t.Helper()
	informer := &syncedInformer{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	if err := informer.indexer.Add(object); err != nil {
		t.Fatal(err)
	}
	return informer
}

type syncedInformer struct{ indexer cache.Indexer }

func (s *syncedInformer) Informer() cache.SharedIndexInformer { return syncedCache{} }
func (s *syncedInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(s.indexer, widgets.GroupResource())
}

type syncedCache struct{ cache.SharedIndexInformer }

func (syncedCache) HasSynced() bool { return true }
