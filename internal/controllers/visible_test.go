package controllers

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// store is a Population that a test sets.
type store struct {
	mu       sync.Mutex
	objects  map[schema.GroupResource]bool
	revision int64
	change   chan struct{}
	down     error // Populated returns it
}

func newStore() *store {
	return &store{objects: map[schema.GroupResource]bool{}, change: make(chan struct{})}
}

func (s *store) set(revision int64, groups ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.revision = map[schema.GroupResource]bool{}, revision
	for _, group := range groups {
		s.objects[schema.GroupResource{Group: group, Resource: "things"}] = true
	}
	close(s.change)
	s.change = make(chan struct{})
}

func (s *store) Populated(_ context.Context, resources []schema.GroupResource) (map[schema.GroupResource]bool, []string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, nil, s.down
	}
	populated, others := map[schema.GroupResource]bool{}, []string(nil)
	for resource := range s.objects {
		if slices.Contains(resources, resource) {
			populated[resource] = true
		} else {
			others = append(others, resource.String())
		}
	}
	return populated, others, nil
}

func (s *store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change
}

func (s *store) Revision(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision, nil
}

func (s *store) Reach(context.Context, int64) error { return nil }

// testVisible returns the visible types of a server.
func testVisible(s *server, content Population) *visibleTypes {
	all := testDiscoverer(s)
	cfg := Config{Types: remoteOnly{}, Population: content, Log: slog.New(slog.DiscardHandler)}
	v := newVisibleTypes(all, cfg, func() map[schema.GroupResource]bool { return nil })
	if err := all.queryAfter(all.queries.Load()); err != nil {
		panic(err)
	}
	return v
}

type remoteOnly struct{ Types }

func (remoteOnly) Remote(gv schema.GroupVersion) bool { return gv.Group == "remote.example.org" }

func update(t *testing.T, v *visibleTypes) {
	t.Helper()
	if err := v.update(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func expectVisible(t *testing.T, v *visibleTypes, want ...string) {
	t.Helper()
	lists, _, _ := v.snapshot()
	var got []string
	for _, list := range lists {
		got = append(got, list.GroupVersion)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("visible: %v, want %v", got, want)
	}
}

// TestTypeStaysVisibleUntilItIsDeleted, also without objects.
func TestTypeStaysVisibleUntilItIsDeleted(t *testing.T) {
	s, content := newServer("a.example.org/v1", "b.example.org/v1"), newStore()
	v := testVisible(s, content)
	content.set(1, "a.example.org")
	update(t, v)
	content.set(2)
	update(t, v)
	expectVisible(t, v, "a.example.org/v1")
	s.serve("b.example.org/v1")
	query(t, v.all)
	update(t, v)
	expectVisible(t, v)
	s.serve("a.example.org/v1", "b.example.org/v1")
	query(t, v.all)
	update(t, v)
	expectVisible(t, v)
}

// TestTypeThatDiscoveryDoesNotHaveYet: its first object causes one more query of discovery.
func TestTypeThatDiscoveryDoesNotHaveYet(t *testing.T) {
	s, content := newServer("a.example.org/v1"), newStore()
	v := testVisible(s, content)
	update(t, v)
	s.serve("a.example.org/v1", "new.example.org/v1")
	content.set(7, "new.example.org", "left-behind.example.org")
	update(t, v)
	expectVisible(t, v, "new.example.org/v1")
	asked := s.asked
	if update(t, v); s.asked != asked {
		t.Error("it asks again for objects whose type is not served")
	}
}

// TestNamedTypesAreVisible: a quota on a type without objects has the types updated.
func TestNamedTypesAreVisible(t *testing.T) {
	v := testVisible(newServer("a.example.org/v1", "b.example.org/v1"), newStore())
	quotas := cache.NewStore(cache.MetaNamespaceKeyFunc)
	v.named = func() map[schema.GroupResource]bool { return namedTypes([]cache.Store{quotas}) }
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "1"}}
	changed := quota.DeepCopy()
	changed.Spec.Hard = corev1.ResourceList{"count/things.b.example.org": resource.MustParse("1"), "secrets": resource.MustParse("1")}
	if err := quotas.Add(changed); err != nil {
		t.Fatal(err)
	}
	handler := wakeWhenNamed(v)
	handler.OnUpdate(quota, changed)
	<-v.woken
	handler.OnUpdate(changed, changed)
	if len(v.woken) != 0 {
		t.Error("an update follows a quota that names the same types")
	}
	update(t, v)
	expectVisible(t, v, "b.example.org/v1")
}

func TestFollowRestartsAfterAChange(t *testing.T) {
	content := newStore()
	v := testVisible(newServer("v1", "remote.example.org/v1"), content)
	ctx, cancel := context.WithCancel(t.Context())
	rounds, ended := make(chan int), make(chan struct{})
	go func() {
		defer close(ended)
		v.follow(ctx, func(round context.Context) {
			lists, _, _ := v.snapshot()
			rounds <- len(lists)
			<-round.Done()
		})
	}()
	update(t, v) // follow waits for a first answer
	if got := <-rounds; got != 1 {
		t.Errorf("the first round saw %d types", got)
	}
	_, next, _ := v.snapshot()
	update(t, v)
	select {
	case <-next:
		t.Error("nothing new, and a new round")
	default:
	}
	content.set(1, "")
	update(t, v)
	if got := <-rounds; got != 2 {
		t.Errorf("the second round saw %d types", got)
	}
	cancel()
	<-ended
}

// TestCountErrorsAreLogged: errors are logged once until a count succeeds, which shows the type.
func TestCountErrorsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := newStore()
		v := testVisible(newServer("a.example.org/v1"), content)
		var logged bytes.Buffer
		v.log = slog.New(slog.NewTextHandler(&logged, nil))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		fail := func(err error) {
			content.mu.Lock()
			content.down = err
			content.mu.Unlock()
			content.set(1, "a.example.org")
			time.Sleep(10 * warnAfter * visibleRetry)
		}
		running.Go(func() { v.run(ctx) })
		for round := 1; round <= 2; round++ {
			fail(errors.New("unsupported transaction"))
			synctest.Wait()
			if got := strings.Count(logged.String(), "unsupported transaction"); got != round {
				t.Errorf("failure %d: logged %d times", round, got)
			}
			fail(nil)
			expectVisible(t, v, "a.example.org/v1")
		}
		cancel()
		running.Wait()
	})
}

func TestTypeMapper(t *testing.T) {
	s := newServer("v1", "a.example.org/v1")
	d := testDiscoverer(s)
	query(t, d)
	m := &typeMapper{types: d}
	kind, err := m.KindFor(schema.GroupVersionResource{Group: "a.example.org", Version: "v1", Resource: "things"})
	if err != nil || kind.Kind != "Thing" {
		t.Errorf("got %v, %v", kind, err)
	}
	if mapping, err := m.RESTMapping(schema.GroupKind{Kind: "Thing"}, "v1"); err != nil || mapping.Resource.Group != "" {
		t.Errorf("the core's: %v, %v", mapping, err)
	}
	if kinds, err := m.KindsFor(schema.GroupVersionResource{Resource: "things"}); err != nil || len(kinds) != 2 {
		t.Errorf("in any group: %v, %v", kinds, err)
	}
	later := schema.GroupKind{Group: "b.example.org", Kind: "Thing"}
	if _, err := m.RESTMapping(later, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("a group that does not exist: %v", err)
	}
	s.serve("v1", "b.example.org/v1")
	d.changed()
	if _, err := m.RESTMapping(later, "v1"); err != nil {
		t.Errorf("a group that is newer than the last look: %v", err)
	}
	s.setDown(errors.New("connection refused"))
	if _, err := m.RESTMapping(schema.GroupKind{Group: "c.example.org", Kind: "Thing"}, "v1"); err == nil || meta.IsNoMatchError(err) {
		t.Errorf("a group that may exist: %v", err)
	}
	s.setDown(nil)
	if _, err := m.RESTMapping(schema.GroupKind{Group: "a.example.org", Kind: "Thing"}, "v1"); !meta.IsNoMatchError(err) {
		t.Errorf("a group that is gone: %v", err)
	}
}
