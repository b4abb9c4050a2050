package controllers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// testFeed is a [Feed] that a test fills.
type testFeed struct {
	lists   chan []*metav1.PartialObjectMetadata
	changes chan watch.Event
	broken  chan error
	closed  atomic.Bool
}

func newTestFeed() *testFeed {
	return &testFeed{lists: make(chan []*metav1.PartialObjectMetadata, 1), changes: make(chan watch.Event), broken: make(chan error)}
}

func (f *testFeed) List(ctx context.Context) ([]*metav1.PartialObjectMetadata, int64, error) {
	select {
	case list := <-f.lists:
		return list, 100, nil
	case err := <-f.broken:
		return nil, 0, err
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

func (f *testFeed) Next(ctx context.Context) ([]watch.Event, error) {
	select {
	case change := <-f.changes:
		return []watch.Event{change}, nil
	case err := <-f.broken:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *testFeed) Revision() int64 { return 100 }

func (f *testFeed) Close() { f.closed.Store(true) }

// storedObject is the metadata of a stored object.
func storedObject(name, uid, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: version}}
}

// storedRecorder is an event handler that records its calls.
type storedRecorder struct {
	mu    sync.Mutex
	lines []string
}

func (r *storedRecorder) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func text(obj any) string {
	m := obj.(*metav1.PartialObjectMetadata)
	return m.Name + " " + string(m.UID) + " " + m.ResourceVersion
}

func (r *storedRecorder) OnAdd(obj any, first bool) { r.add("add %s %t", text(obj), first) }
func (r *storedRecorder) OnUpdate(before, after any) {
	r.add("update %s to %s", text(before), text(after))
}
func (r *storedRecorder) OnDelete(obj any) { r.add("delete %s", text(obj)) }

// await waits until the handler has this number of calls, and returns them.
func (r *storedRecorder) await(t *testing.T, count int) []string {
	t.Helper()
	for {
		r.mu.Lock()
		lines := slices.Clone(r.lines)
		r.mu.Unlock()
		if len(lines) >= count {
			return lines
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("only %q", lines)
		case <-time.After(time.Millisecond):
		}
	}
}

func (r *storedRecorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := r.await(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("the calls are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func addRecorder(t *testing.T, informer cache.SharedInformer) (*storedRecorder, cache.ResourceEventHandlerRegistration) {
	t.Helper()
	r := &storedRecorder{}
	registration, err := informer.AddEventHandlerWithResyncPeriod(r, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return r, registration
}

// TestStoredInformer: handlers get each change once, in order, also the changes during
// a break of the watch.
func TestStoredInformer(t *testing.T) {
	feed := newTestFeed()
	informer := newStoredInformer(widgets, feed, slog.New(slog.DiscardHandler))
	informer.retry = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	early, registered := addRecorder(t, informer)
	if informer.HasSynced() || registered.HasSynced() {
		t.Error("synced before the first list")
	}
	feed.broken <- errors.New("etcd is away")
	feed.lists <- []*metav1.PartialObjectMetadata{storedObject("a", "1", "10"), storedObject("b", "2", "11")}
	<-registered.HasSyncedChecker().Done()
	<-informer.HasSyncedChecker().Done()
	early.expect(t, "add a 1 10 true", "add b 2 11 true")
	late, registered := addRecorder(t, informer)
	if !registered.HasSynced() {
		t.Error("a handler that has got all objects is not synced")
	}
	if lines := late.await(t, 2); len(lines) != 2 {
		t.Errorf("the second handler received %q", lines)
	}
	feed.changes <- watch.Event{Type: watch.Modified, Object: storedObject("a", "1", "12")}
	feed.changes <- watch.Event{Type: watch.Added, Object: storedObject("c", "3", "13")}
	feed.changes <- watch.Event{Type: watch.Deleted, Object: storedObject("b", "", "14")}
	feed.changes <- watch.Event{Type: watch.Deleted, Object: storedObject("unknown", "", "15")}
	early.expect(t, "add a 1 10 true", "add b 2 11 true", "update a 1 10 to a 1 12", "add c 3 13 false", "delete b 2 14")
	if err := informer.RemoveEventHandler(registered); err != nil {
		t.Fatal(err)
	}
	calls := len(late.await(t, 5))
	feed.broken <- errors.New("some were missed")
	feed.lists <- []*metav1.PartialObjectMetadata{storedObject("c", "4", "16"), storedObject("d", "5", "17")}
	early.expect(t, "add a 1 10 true", "add b 2 11 true", "update a 1 10 to a 1 12", "add c 3 13 false", "delete b 2 14",
		"delete c 3 16", "add c 4 16 false", "add d 5 17 false", "delete a 1 100")
	if len(late.await(t, 0)) != calls {
		t.Error("a handler is called after its removal")
	}
	objects, err := storedType{informer}.Lister().ByNamespace("default").List(labels.Everything())
	if err != nil || len(objects) != 2 || informer.LastSyncResourceVersion() != "100" {
		t.Errorf("%v: %d objects", err, len(objects))
	}
	cancel()
	<-ended
	if !feed.closed.Load() || !informer.IsStopped() {
		t.Error("it does not end")
	}
	if _, err := informer.AddEventHandler(&storedRecorder{}); err == nil {
		t.Error("it takes a handler after its end")
	}
}

// TestStoredInformerLogsAnErrorOnce: an object that cannot be decoded fails each list.
// Changes that were missed are not logged for each type.
func TestStoredInformerLogsAnErrorOnce(t *testing.T) {
	feed, log := newTestFeed(), &bytes.Buffer{}
	informer := newStoredInformer(widgets, feed, slog.New(slog.NewTextHandler(log, nil)))
	informer.retry = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		informer.RunWithContext(ctx)
	}()
	list := func() {
		feed.lists <- nil
		feed.changes <- watch.Event{Type: watch.Added, Object: storedObject("a", "1", "10")} // after the list
	}
	for range 3 {
		feed.broken <- errors.New("a cannot be decoded")
	}
	feed.broken <- errors.New("b cannot be decoded")
	list()
	feed.broken <- errors.New("changes were missed") // between two lists that succeed
	list()
	feed.broken <- errors.New("changes were missed")
	for range 2 {
		feed.broken <- errors.New("b cannot be decoded")
	}
	list()
	cancel()
	<-ended
	a, b, missed := strings.Count(log.String(), "a cannot be"), strings.Count(log.String(), "b cannot be"), strings.Count(log.String(), "missed\"")
	if a != 1 || b != 2 || missed != 0 {
		t.Errorf("logged %d, %d and %d times, want 1, 2 and 0:\n%s", a, b, missed, log)
	}
}

// TestCustomResourcesAreFollowedInTheStore: other types are watched by the API.
func TestCustomResourcesAreFollowedInTheStore(t *testing.T) {
	set := testInformers(t)
	set.log = slog.New(slog.DiscardHandler)
	feeds := map[schema.GroupResource]*testFeed{}
	set.follow = func(resource schema.GroupResource) (Feed, error) {
		switch resource.Resource {
		case widgets.Resource:
			feeds[resource] = newTestFeed()
			return feeds[resource], nil
		case "broken":
			return nil, errors.New("no such storage")
		}
		return nil, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gc := set.newMonitors()
	informer, stop, ended := runningMonitor(t, gc, widgets)
	if _, ok := informer.(*storedInformer); !ok {
		t.Errorf("a custom resource has a %T", informer)
	}
	for _, resource := range []string{"gadgets", "broken"} {
		if informer, _, _ := runningMonitor(t, gc, widgets.GroupVersion().WithResource(resource)); informer == nil {
			t.Errorf("%s have no informer", resource)
		} else if _, ok := informer.(*storedInformer); ok {
			t.Errorf("%s are followed in the store", resource)
		}
	}
	set.Start(ctx.Done())
	feeds[widgets.GroupResource()].lists <- []*metav1.PartialObjectMetadata{storedObject("a", "1", "10")}
	for !gc.synced(widgets) {
		time.Sleep(time.Millisecond)
	}
	if objects, err := set.lister(widgets).List(labels.Everything()); err != nil || len(objects) != 1 {
		t.Errorf("%v: %d objects", err, len(objects))
	}
	close(stop)
	<-ended
}
