package controllers

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

var movingThings = schema.GroupVersionResource{Group: "moving.example.org", Version: "v1", Resource: "things"}

// movingServer is an API server whose types an aggregated one serves while remote is set.
type movingServer struct {
	Types
	remote atomic.Bool
}

// Remote implements [Types].
func (m *movingServer) Remote(schema.GroupVersion) bool { return m.remote.Load() }

// informers returns informers of the server, and a clock.
func (m *movingServer) informers(t *testing.T) (*informerSet, *testClock) {
	clock := newClock()
	set := testInformers(t, clock.now)
	set.remote = m.Remote
	set.follow = func(schema.GroupResource) (Feed, error) { return newTestFeed(), nil }
	return set, clock
}

// expectStored reports an error unless the informer reads from etcd exactly if want is set.
func expectStored(t *testing.T, informer cache.SharedIndexInformer, want bool) {
	t.Helper()
	if _, stored := informer.(*storedInformer); stored != want {
		t.Errorf("the informer is a %T", informer)
	}
}

// TestTypeMovesToAnotherServer: controllers get monitors of the server that serves a type
// since an APIService was changed, although the type is the same.
func TestTypeMovesToAnotherServer(t *testing.T) {
	m, content := &movingServer{}, newStore()
	set, _ := m.informers(t)
	all := newDiscoverer(newServer(movingThings.GroupVersion().String()), m.Remote, slog.New(slog.DiscardHandler))
	v := newVisibleTypes(all, Config{Types: m, Population: content, Log: all.log}, newNamedTypes(), set)
	content.set(1, movingThings.Group)
	query(t, all)
	update(t, v)
	controllers := []*monitors{set.newMonitors(), set.newMonitors()}
	for _, remote := range []bool{false, true, false} {
		var stops []chan struct{}
		var ends []<-chan struct{}
		expectVisible(t, v, movingThings.GroupVersion().String())
		for _, controller := range controllers {
			informer, stop, ended := runningMonitor(t, controller, movingThings)
			expectStored(t, informer, !remote)
			stops, ends = append(stops, stop), append(ends, ended)
		}
		_, changed, _ := all.snapshot()
		m.remote.Store(!remote)
		query(t, all)
		select {
		case <-changed: // run updates the visible types
		default:
			t.Fatal("the move is no change of the types")
		}
		if _, live := set.lister(movingThings).(liveLister); !live {
			t.Error("a quota counts the objects of the server that the type had before")
		}
		for i, stop := range stops {
			if wait := update(t, v); wait != visibleRetry {
				t.Errorf("the next update is due in %v", wait)
			}
			expectVisible(t, v)
			close(stop) // as upstream does when a type is not visible
			<-ends[i]
		}
		update(t, v)
	}
}

// TestMonitorIsRunAfterTheMove: a monitor that its controller runs late gets the informer
// of the server that serves the type then.
func TestMonitorIsRunAfterTheMove(t *testing.T) {
	m := &movingServer{}
	set, clock := m.informers(t)
	gc := set.newMonitors()
	shared, err := gc.ForResource(movingThings)
	if err != nil {
		t.Fatal(err)
	}
	late := shared.Informer().(*monitor)
	if _, err := late.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{}, 0); err != nil {
		t.Fatal(err)
	}
	expectStored(t, late.SharedIndexInformer, true)
	m.remote.Store(true)
	gc.releaseUnlisted(nil)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		late.GetController().Run(stop)
	}()
	ran := func(context.Context) (bool, error) {
		late.turn.Lock()
		defer late.turn.Unlock()
		return late.ran, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, ran); err != nil {
		t.Fatal(err)
	}
	expectStored(t, late.SharedIndexInformer, false)
	close(stop)
	<-ended
	clock.Time = clock.Add(removeDelay)
	set.removeReleased()
	if len(set.watched) != 0 || len(set.handled) != 0 {
		t.Error("the informer goes on after its last monitor")
	}
}
