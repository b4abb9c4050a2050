package controllers

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

// clock is a time that a test sets.
type testClock struct{ time.Time }

func (c *testClock) now() time.Time { return c.Time }

func newClock() *testClock { return &testClock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func testInformers(t *testing.T, now func() time.Time) *informerSet {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	set := newInformerSet(t.Context(), informers.NewSharedInformerFactory(fake.NewClientset(), 0), metadatafake.NewSimpleMetadataClient(scheme))
	set.now = now
	return set
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
// and not while another controller monitors the type.
func TestInformersEndAfterTheirLastMonitor(t *testing.T) {
	clock := newClock()
	set := testInformers(t, clock.now)
	ctx, cancel := context.WithCancel(t.Context())
	gc, quota := set.newMonitors(), set.newMonitors()
	first, stopFirst, firstEnded := runningMonitor(t, gc, widgets)
	second, stopSecond, secondEnded := runningMonitor(t, quota, widgets)
	if first != second {
		t.Fatal("two controllers do not share an informer")
	}
	set.Start(ctx.Done())
	close(stopFirst)
	<-firstEnded
	clock.Time = clock.Add(removeDelay)
	set.removeReleased()
	if first.IsStopped() {
		t.Fatal("the informer has ended while a controller monitors the type")
	}
	third, stopThird, thirdEnded := runningMonitor(t, gc, widgets)
	if third != first {
		t.Error("a type that is monitored again has a second informer")
	}
	close(stopSecond)
	<-secondEnded
	close(stopThird)
	<-thirdEnded
	if wait := set.removeReleased(); wait != removeDelay || first.IsStopped() {
		t.Errorf("the informer ends at once; the next look is in %v", wait)
	}
	clock.Time = clock.Add(removeDelay)
	set.removeReleased()
	set.running.Wait() // hangs if the informer has not ended
	if !first.IsStopped() || len(set.watched) != 0 {
		t.Error("the informer runs on")
	}
	cancel()
}

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
		set := testInformers(t, time.Now)
		set.content = c.content
		m := &monitor{SharedIndexInformer: syncedAt{revision: c.synced}, monitors: set.newMonitors(), resource: schema.GroupVersionResource{Version: "v1", Resource: c.resource}}
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
	set := testInformers(t, newClock().now)
	typed, err := set.typed.ForResource(configMaps)
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedInformer{typed.Informer(), map[cache.ResourceEventHandlerRegistration]bool{}}
	set.watched[configMaps] = &watchedType{resource: configMaps, informer: counted, typed: true}
	env := &environment{}
	env.atEnd(set.removeHandlers)
	if err := env.watch(counted, newNamedTypes().handler()); err != nil {
		t.Fatal(err)
	}
	quotas := &kube.QuotaInformer{ResourceQuotaInformer: countedQuotas{counted: counted}}
	env.atEnd(quotas.RemoveHandler)
	if _, err := quotas.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	gc := set.newMonitors()
	_, stop, ended := runningMonitor(t, gc, configMaps) // upstream releases it
	runningMonitor(t, set.newMonitors(), configMaps)    // it is still wanted at the end
	unstarted, err := set.newMonitors().ForResource(configMaps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unstarted.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-ended
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
	set := testInformers(t, newClock().now)
	gc := set.newMonitors()
	shared, err := gc.ForResource(widgets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	runningMonitor(t, gc, widgets)
	if len(set.released) != 1 || set.released[0].monitor != shared.Informer() {
		t.Errorf("released: %v", set.released)
	}
}

// TestMonitorThatIsRunTooLate: a monitor that was stopped before it was run does not replace
// the next one of its type.
func TestMonitorThatIsRunTooLate(t *testing.T) {
	set := testInformers(t, newClock().now)
	gc := set.newMonitors()
	late, err := gc.ForResource(widgets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	runningMonitor(t, gc, widgets)
	current := gc.current[widgets]
	stopped := make(chan struct{})
	close(stopped)
	late.Informer().GetController().Run(stopped)
	if gc.current[widgets] != current || slices.ContainsFunc(set.released, func(r released) bool { return r.monitor == current }) {
		t.Error("the monitor of the type is released")
	}
}

// TestMonitorsThatAreNeverRun: while upstream cannot make the monitor of one type, it does
// not run the new monitors of others, and drops them silently when their types are gone.
// Their informers end nevertheless. A monitor that is run later has its handler.
func TestMonitorsThatAreNeverRun(t *testing.T) {
	listed := []*metav1.APIResourceList{{GroupVersion: widgets.GroupVersion().String(), APIResources: []metav1.APIResource{{Name: widgets.Resource}}}}
	for name, forgotten := range map[string]bool{"run soon": false, "run after its informer has ended": true} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			set := testInformers(t, clock.now)
			gc := set.newMonitors()
			set.Start(t.Context().Done())
			shared, err := gc.ForResource(widgets)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := shared.Informer().AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
				t.Fatal(err)
			}
			set.Start(t.Context().Done())
			gc.releaseUnlisted(listed)
			if len(set.released) != 0 {
				t.Fatal("the monitor of a listed type is released")
			}
			gc.releaseUnlisted(nil)
			if forgotten {
				clock.Time = clock.Add(removeDelay)
			}
			if set.removeReleased(); (set.watched[widgets] == nil) != forgotten {
				t.Fatalf("the informer has ended: %t", set.watched[widgets] == nil)
			}
			stop, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				shared.Informer().GetController().Run(stop)
			}()
			synced := func(context.Context) (bool, error) { return gc.synced(widgets), nil }
			if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, synced); err != nil {
				t.Fatalf("the monitor does not sync: %v", err)
			}
			gc.releaseUnlisted(nil) // it runs
			clock.Time = clock.Add(removeDelay)
			if set.removeReleased(); set.watched[widgets] == nil {
				t.Error("the informer of a monitor that runs has ended")
			}
			close(stop)
			<-ended
			clock.Time = clock.Add(removeDelay)
			if set.removeReleased(); set.watched[widgets] != nil || len(set.handled) != 0 {
				t.Error("the informer goes on after its last monitor")
			}
		})
	}
}

// TestTypeThatReturnsGetsANewInformer: the old one may be in a long pause
// between attempts.
func TestTypeThatReturnsGetsANewInformer(t *testing.T) {
	set := testInformers(t, newClock().now)
	gc := set.newMonitors()
	first, stop, ended := runningMonitor(t, gc, widgets)
	set.watched[widgets].notFound.Store(true)
	if second, _, _ := runningMonitor(t, set.newMonitors(), widgets); second != first {
		t.Error("a type that is still monitored has a second informer")
	}
	close(stop)
	<-ended
	set.watched[widgets].monitors = 0
	if third, _, _ := runningMonitor(t, gc, widgets); third == first {
		t.Error("the informer of a type that was away is used again")
	}
}
