package controllers

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
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

// runningMonitor begins a monitor as upstream does. Closing its channel is how
// upstream releases the type.
func runningMonitor(t *testing.T, m *monitors, resource schema.GroupVersionResource) (cache.SharedIndexInformer, chan struct{}, <-chan struct{}) {
	t.Helper()
	shared, err := m.ForResource(resource)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		shared.Informer().GetController().Run(stop)
	}()
	return shared.Informer().(*monitor).SharedIndexInformer, stop, ended
}

// TestInformersEndAfterTheirLastMonitor: an informer ends some time after its last monitor,
// and not while another controller monitors the type. A type that returns gets a new one.
func TestInformersEndAfterTheirLastMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := testInformers(t)
		ctx, cancel := context.WithCancel(t.Context())
		set.ctx = ctx
		set.follow = func(schema.GroupResource) (Feed, error) { return newTestFeed(), nil }
		gc, quota := set.newMonitors(), set.newMonitors()
		first, stopFirst, firstEnded := runningMonitor(t, gc, widgets)
		second, stopSecond, secondEnded := runningMonitor(t, quota, widgets)
		if first != second {
			t.Fatal("two controllers do not share an informer")
		}
		set.Start(ctx.Done())
		close(stopFirst)
		<-firstEnded
		time.Sleep(2 * stopDelay)
		if first.IsStopped() {
			t.Fatal("the informer has ended while a controller monitors the type")
		}
		close(stopSecond)
		<-secondEnded
		third, stopThird, thirdEnded := runningMonitor(t, gc, widgets)
		set.Start(ctx.Done())
		if third == first || first.IsStopped() {
			t.Error("a type that returns has the old informer, or that has ended at once")
		}
		time.Sleep(2 * stopDelay)
		synctest.Wait()
		if !first.IsStopped() || third.IsStopped() {
			t.Errorf("the informer of the deleted type has ended: %t, that of the new one: %t", first.IsStopped(), third.IsStopped())
		}
		close(stopThird)
		<-thirdEnded
		if len(set.watched) != 0 {
			t.Error("the informer is kept")
		}
		cancel()
		set.run(ctx)
	})
}

// TestMovedType: the controllers start again when another server serves a type that they
// monitor.
func TestMovedType(t *testing.T) {
	m := &movingServer{}
	set := testInformers(t)
	set.remote = m.Remote
	set.follow = func(schema.GroupResource) (Feed, error) { return newTestFeed(), nil }
	all := newDiscoverer(newServer(widgets.GroupVersion().String()), m.Remote, slog.New(slog.DiscardHandler))
	query(t, all)
	for _, remote := range []bool{false, true} {
		m.remote.Store(remote)
		query(t, all)
		ctx, restart := context.WithCancel(t.Context())
		informer, stop, ended := runningMonitor(t, set.newMonitors(), widgets)
		if _, stored := informer.(*storedInformer); stored == remote {
			t.Errorf("the informer is a %T", informer)
		}
		env := &environment{types: all, monitorInformers: set, restart: restart, config: Config{Log: all.log}}
		m.remote.Store(!remote)
		query(t, all)
		env.restartAfterMove(ctx) // hangs if it does not restart
		close(stop)
		<-ended
	}
}

// movingServer is an API server whose types an aggregated one serves while remote is set.
type movingServer struct{ remote atomic.Bool }

// Remote is that of [Types].
func (m *movingServer) Remote(schema.GroupVersion) bool { return m.remote.Load() }

// syncedAt is an informer that has handled all changes up to a revision.
type syncedAt struct {
	cache.SharedIndexInformer
	revision string
}

func (s syncedAt) LastSyncResourceVersion() string { return s.revision }

// TestMonitorOfATypeWithoutChanges: a storage version migration need not wait for the
// next bookmark of a watch.
func TestMonitorOfATypeWithoutChanges(t *testing.T) {
	for _, c := range []struct {
		resource, synced string
		content          Population
		want             string
	}{
		{"configmaps", "7", &store{revision: 12}, "12"},
		{"secrets", "7", &store{revision: 12}, "7"}, // it has changes since
		{"configmaps", "opaque", &store{revision: 12}, "opaque"},
		{"configmaps", "7", nil, "7"},
	} {
		set := testInformers(t)
		set.content = c.content
		m := &monitor{SharedIndexInformer: syncedAt{revision: c.synced}, monitors: set.newMonitors(), shared: &watchedType{resource: schema.GroupVersionResource{Version: "v1", Resource: c.resource}}}
		if got := m.GetController().LastSyncResourceVersion(); got != c.want {
			t.Errorf("%s at %s: %s, want %s", c.resource, c.synced, got, c.want)
		}
	}
}

// countedInformer counts its handlers.
type countedInformer struct {
	cache.SharedIndexInformer
	handlers map[cache.ResourceEventHandlerRegistration]bool
}

func (c *countedInformer) Informer() cache.SharedIndexInformer { return c }
func (c *countedInformer) Lister() cache.GenericLister         { return nil }

func (c *countedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return c.AddEventHandlerWithResyncPeriod(handler, 0)
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

// TestNoHandlersAreLeftAfterTheEnd: a typed informer outlives the controllers of one
// term, and must not keep what they had in memory.
func TestNoHandlersAreLeftAfterTheEnd(t *testing.T) {
	set := testInformers(t)
	typed, err := set.typed.ForResource(configMaps)
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedInformer{typed.Informer(), map[cache.ResourceEventHandlerRegistration]bool{}}
	set.watched[configMaps] = &watchedType{resource: configMaps, informer: counted, typed: true}
	env := &environment{monitorInformers: set}
	if err := env.watch(counted, newNamedTypes().handler()); err != nil {
		t.Fatal(err)
	}
	quotas := &kube.QuotaInformer{ResourceQuotaInformer: countedQuotas{counted: counted}}
	env.atEnd(quotas.RemoveHandler)
	if _, err := quotas.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	runningMonitor(t, env.newMonitors(), configMaps)
	runningMonitor(t, env.newMonitors(), configMaps)
	unstarted, err := env.newMonitors().ForResource(configMaps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unstarted.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	if len(counted.handlers) != 5 {
		t.Fatalf("%d handlers while the controllers run", len(counted.handlers))
	}
	env.end()
	if len(counted.handlers) != 0 {
		t.Errorf("%d handlers are left", len(counted.handlers))
	}
}

// countedQuotas is an informer of quotas.
type countedQuotas struct {
	coreinformers.ResourceQuotaInformer
	counted *countedInformer
}

func (c countedQuotas) Informer() cache.SharedIndexInformer { return c.counted }

// TestNewMonitorReplacesTheOld: upstream may drop a monitor that it never ran.
func TestNewMonitorReplacesTheOld(t *testing.T) {
	set := testInformers(t)
	gc := set.newMonitors()
	shared, err := gc.ForResource(widgets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	runningMonitor(t, gc, widgets)
	if known := set.watched[widgets]; known.monitors != 1 {
		t.Errorf("the informer has %d monitors", known.monitors)
	}
}
