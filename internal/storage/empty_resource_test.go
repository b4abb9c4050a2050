package storage

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// hold returns the empty resource and its revision.
func hold(t *testing.T, p *Population, resource schema.GroupResource, since int64) (*EmptyResource, int64) {
	t.Helper()
	v, revision, err := p.HoldEmpty(t.Context(), resource, since)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Release)
	return v, revision
}

func expectRefused(t *testing.T, p *Population, resource schema.GroupResource, since int64, want error) {
	t.Helper()
	if _, _, err := p.HoldEmpty(t.Context(), resource, since); !errors.Is(err, want) {
		t.Errorf("since %d: got %v, want %v", since, err, want)
	}
}

func hasEnded(v *EmptyResource) bool {
	select {
	case <-v.Ended():
		return true
	default:
		return false
	}
}

// TestEmptyResource: the revision at which a resource has no objects is known, and the
// last such revision when the first object has come.
func TestEmptyResource(t *testing.T) {
	p, client := newPopulation(t)
	began := put(t, client, "/registry/configmaps/default/a")
	v, revision := hold(t, p, widgets, Current)
	if revision < began || hasEnded(v) || v.Revision() < revision {
		t.Fatalf("at %d: of %d, over %t", began, revision, hasEnded(v))
	}
	other := put(t, client, "/registry/example.com/gadgets/default/a")
	same, revision := hold(t, p, widgets, began)
	if same != v || revision < began {
		t.Errorf("another resource, or of %d", revision)
	}
	first := put(t, client, "/registry/example.com/widgets/default/a")
	<-v.Ended()
	if last := v.Revision(); last != first-1 || last < other {
		t.Errorf("the last revision without objects is %d, the first object came at %d", last, first)
	}
	if start, _ := p.cacheStart(widgets); start != first-1 {
		t.Errorf("a watch cache begins at %d, the first object came at %d", start, first)
	}
	expectRefused(t, p, widgets, Current, ErrHasObjects)
	expectRefused(t, p, widgets, began, ErrHasObjects)
	gone := remove(t, client, "/registry/example.com/widgets/default/a")
	reach(t, p, gone)
	expectRefused(t, p, widgets, began, ErrUnknownHistory)
	expectRefused(t, p, widgets, gone-1, ErrUnknownHistory)
	expectRefused(t, p, widgets, gone+1000, ErrFuture)
	later := put(t, client, "/registry/configmaps/default/b")
	reach(t, p, later)
	for from, want := range map[int64]int64{gone: later, gone - 1: gone - 1, began: first - 1} {
		if got := p.skipEmpty(widgets, from); got != want {
			t.Errorf("a watch from %d, of %d to %d, begins at %d instead of %d", from, first, gone, got, want)
		}
	}
	again, revision := hold(t, p, widgets, gone)
	if again == v || hasEnded(again) || revision < gone {
		t.Errorf("the resource is not empty, or of %d", revision)
	}
	if start, _ := p.cacheStart(widgets); start != first-1 {
		t.Errorf("a watch cache begins at %d: the first ones still wait for the object of %d", start, first)
	}
}

// TestEmptyResourceWithHistory: the history from before the watch is not known.
func TestEmptyResourceWithHistory(t *testing.T) {
	s, client := newStorage(t)
	before := put(t, client, "/registry/example.com/widgets/default/a")
	put(t, client, "/registry/example.com/gadgets/default/a")
	remove(t, client, "/registry/example.com/gadgets/default/a")
	p := s.Population()
	expectRefused(t, p, widgets, Current, ErrHasObjects)
	expectRefused(t, p, gadgets, before, ErrUnknownHistory)
	_, revision := hold(t, p, gadgets, Current)
	if start, _ := p.cacheStart(gadgets); start != revision {
		t.Errorf("a watch cache begins at %d, not %d", start, revision)
	}
	if start, _ := p.cacheStart(widgets); start != 0 {
		t.Errorf("a watch cache that was not requested begins at %d", start)
	}
}

// breakWatch ends the watch of the population. Meanwhile is called before the next watch
// begins.
func breakWatch(t *testing.T, p *Population, meanwhile func()) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.watcher.Close(); err != nil {
		t.Error(err)
	}
	meanwhile()
}

// TestEmptyResourceEndsWithTheWatch: objects may have been created and deleted until the next one.
func TestEmptyResourceEndsWithTheWatch(t *testing.T) {
	p, client := newPopulation(t)
	v, revision := hold(t, p, widgets, Current)
	released, _, err := p.HoldEmpty(t.Context(), gadgets, Current)
	if err != nil {
		t.Fatal(err)
	}
	breakWatch(t, p, func() { put(t, client, "/registry/configmaps/default/a") })
	<-v.Ended()
	if last := v.Revision(); last != 0 {
		t.Errorf("%d is called a revision without objects", last)
	}
	if start, _ := p.cacheStart(widgets); start != 0 {
		t.Errorf("a watch cache begins at %d", start)
	}
	released.Release()
	put(t, client, "/registry/configmaps/default/a")
	if _, now := hold(t, p, widgets, Current); now <= revision {
		t.Errorf("still at %d", now)
	}
	expectPopulated(t, p, 0, configMaps)
}

// TestEmptyResourceOfAnIdleStore: a watch cache cannot begin at a revision that has been
// compacted, so an EmptyResource follows revisions of keys outside of the prefix as well.
func TestEmptyResourceOfAnIdleStore(t *testing.T) {
	s, client := newStorage(t)
	p := s.Population()
	p.refresh = time.Millisecond
	v, _ := hold(t, p, widgets, Current)
	outside := put(t, client, "compact_rev_key")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for v.Revision() < outside {
		select {
		case <-ctx.Done():
			t.Fatalf("the resource is empty at %d, the store at %d", v.Revision(), outside)
		case <-time.After(time.Millisecond):
		}
	}
	if start, _ := p.cacheStart(widgets); start < outside {
		t.Errorf("a watch cache begins at %d, the store is at %d", start, outside)
	}
}
