package controllers

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
)

// server is a discovery client whose answers a test can change.
type server struct {
	fake.FakeDiscovery
	mu     sync.Mutex
	lists  []*metav1.APIResourceList
	failed map[schema.GroupVersion]error
	down   error // no answer at all
	asked  int
	during func() // called while a question is under way
}

func newServer(groupVersions ...string) *server {
	s := &server{FakeDiscovery: fake.FakeDiscovery{Fake: &clienttesting.Fake{}}}
	s.serve(groupVersions...)
	return s
}

func (s *server) serve(groupVersions ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = nil
	for _, gv := range groupVersions {
		s.lists = append(s.lists, &metav1.APIResourceList{GroupVersion: gv, APIResources: []metav1.APIResource{{Name: "things", SingularName: "thing", Kind: "Thing", Namespaced: true, Verbs: metav1.Verbs{"list", "watch", "delete"}}}})
	}
}

func (s *server) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// GroupsAndMaybeResources is what discovery.ServerPreferredResources asks first.
func (s *server) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	if s.during != nil {
		s.during()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.down != nil {
		return nil, nil, nil, s.down
	}
	groups := &metav1.APIGroupList{}
	resources := map[schema.GroupVersion]*metav1.APIResourceList{}
	add := func(gv schema.GroupVersion) {
		version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
	}
	for _, list := range s.lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, nil, nil, err
		}
		add(gv)
		resources[gv] = list
	}
	for gv := range s.failed {
		add(gv)
	}
	return groups, resources, s.failed, nil
}

func testDiscoverer(s *server) *discoverer {
	return newDiscoverer(s, func(gv schema.GroupVersion) bool { return gv.Group == "remote.example.org" }, slog.New(slog.DiscardHandler))
}

func groupVersions(t *testing.T, d *discoverer) []string {
	t.Helper()
	lists, _, _ := d.snapshot()
	var got []string
	for _, list := range lists {
		got = append(got, list.GroupVersion)
	}
	slices.Sort(got)
	return got
}

func query(t *testing.T, d *discoverer) {
	t.Helper()
	if err := d.queryAfter(d.queries.Load()); err != nil {
		t.Error(err)
	}
}

func refresh(t *testing.T, d *discoverer) {
	t.Helper()
	if err := d.refresh(); err != nil {
		t.Error(err)
	}
}

func TestTypesOfAnUnreachableServerAreKept(t *testing.T) {
	remote := schema.GroupVersion{Group: "remote.example.org", Version: "v1"}
	s := newServer("v1", remote.String())
	d := testDiscoverer(s)
	query(t, d)
	s.serve("v1")
	s.failed = map[schema.GroupVersion]error{remote: errors.New("503")}
	query(t, d)
	if got := groupVersions(t, d); !slices.Equal(got, []string{remote.String(), "v1"}) {
		t.Errorf("with a failing server there are %v", got)
	}
	if _, err := d.namespaced(); err == nil {
		t.Error("the failure is not returned")
	}
	s.failed = nil
	query(t, d)
	if got := groupVersions(t, d); !slices.Equal(got, []string{"v1"}) {
		t.Errorf("after the group was removed there are %v", got)
	}
	if _, _, err := d.snapshot(); err != nil {
		t.Errorf("the failure stays: %v", err)
	}
}

// TestQueriesRunOneAfterTheOther: otherwise the result of an older query could replace that
// of a newer one, and a new type would be missing.
func TestQueriesRunOneAfterTheOther(t *testing.T) {
	s := newServer("v1")
	d := testDiscoverer(s)
	d.changed()
	var underWay atomic.Int32
	s.during = func() {
		if n := underWay.Add(1); n != 1 {
			t.Errorf("%d queries at once", n)
		}
		for range 1000 {
			runtime.Gosched()
		}
		underWay.Add(-1)
	}
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() { refresh(t, d) })
		workers.Go(func() { query(t, d) })
	}
	workers.Wait()
}

// TestChangeDuringAQueryCausesAnotherQuery: the query may not include the change.
func TestChangeDuringAQueryCausesAnotherQuery(t *testing.T) {
	s := newServer("v1")
	d := testDiscoverer(s)
	d.changed()
	queried := d.changes.Load()
	query(t, d)
	d.changed()
	d.seen.Store(queried)
	s.serve("v1", "new.example.org/v1")
	refresh(t, d)
	if got := groupVersions(t, d); !slices.Equal(got, []string{"new.example.org/v1", "v1"}) {
		t.Errorf("after a change there are %v", got)
	}
	d.seen.Store(d.changes.Load())
	asked := s.asked
	if refresh(t, d); s.asked != asked {
		t.Error("it asks recheckDelay when all changes have had their time")
	}
}

func TestRunQueriesAfterAChange(t *testing.T) {
	s := newServer("v1")
	d := testDiscoverer(s)
	_, next, _ := d.snapshot()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.run(ctx)
	}()
	<-next
	_, next, _ = d.snapshot()
	s.serve("v1", "new.example.org/v1")
	for queried := false; !queried; { // a series of changes must not delay the query for ever
		d.changed()
		select {
		case <-next:
			queried = true
		default:
			runtime.Gosched()
		}
	}
	if got := groupVersions(t, d); !slices.Equal(got, []string{"new.example.org/v1", "v1"}) {
		t.Errorf("after a change there are %v", got)
	}
	cancel()
	<-ended
}

// TestRefreshReturnsTheErrorOfTheQuery: the caller must not conclude from older types that
// a type is absent.
func TestRefreshReturnsTheErrorOfTheQuery(t *testing.T) {
	s := newServer("v1")
	d := testDiscoverer(s)
	query(t, d)
	d.changed()
	s.setDown(errors.New("connection refused"))
	if err := d.refresh(); err == nil {
		t.Error("refresh after a failed query returns no error")
	}
	queries := d.queries.Load()
	if err := d.queryAfter(d.queries.Load()); err == nil {
		t.Error("a failed query returns no error")
	}
	if err := d.queryAfter(queries); err == nil {
		t.Error("queryAfter does not return the error of the query that it waited for")
	}
	if got := groupVersions(t, d); !slices.Equal(got, []string{"v1"}) {
		t.Errorf("without an answer there are %v", got)
	}
	s.setDown(nil)
	refresh(t, d)
	if err := d.queryAfter(queries); err != nil {
		t.Errorf("the failure stays: %v", err)
	}
}

// TestRunQueriesAgainAfterAFailure: it does not need another change for the next query.
func TestRunQueriesAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("v1")
		d := testDiscoverer(s)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.run(ctx) })
		synctest.Wait()
		s.serve("v1", "new.example.org/v1")
		s.setDown(errors.New("connection refused"))
		d.changed()
		time.Sleep(10 * recheckDelay)
		if !d.stale() {
			t.Error("a change is settled without an answer")
		}
		s.setDown(nil)
		time.Sleep(10 * recheckDelay)
		if got := groupVersions(t, d); !slices.Equal(got, []string{"new.example.org/v1", "v1"}) {
			t.Errorf("after the failure there are %v", got)
		}
		if d.stale() {
			t.Error("the change is not marked as seen after two queries")
		}
		cancel()
		running.Wait()
	})
}

var _ discovery.DiscoveryInterface = (*server)(nil)
