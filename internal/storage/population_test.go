package storage

import (
	"context"
	"maps"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	configMaps  = schema.GroupResource{Resource: "configmaps"}
	apiServices = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
	widgets     = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	gadgets     = schema.GroupResource{Group: "example.com", Resource: "gadgets"}
	all         = []schema.GroupResource{configMaps, apiServices, widgets, gadgets}
)

func newPopulation(t *testing.T) (*Population, *clientv3.Client) {
	t.Helper()
	s, client := newStorage(t)
	s.recordPrefix(configMaps, "configmaps")
	s.recordPrefix(apiServices, "apiregistration.k8s.io/apiservices")
	return s.Population(), client
}

func put(t *testing.T, client *clientv3.Client, keys ...string) int64 {
	t.Helper()
	var revision int64
	for _, key := range keys {
		response, err := client.Put(t.Context(), key, "x")
		if err != nil {
			t.Fatal(err)
		}
		revision = response.Header.Revision
	}
	return revision
}

func remove(t *testing.T, client *clientv3.Client, key string) int64 {
	t.Helper()
	response, err := client.Delete(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

func reach(t *testing.T, p *Population, revision int64) {
	t.Helper()
	if err := p.Reach(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

// expectPopulated compares the resources that have objects as of the revision.
func expectPopulated(t *testing.T, p *Population, revision int64, want ...schema.GroupResource) {
	t.Helper()
	reach(t, p, revision)
	populated, _, err := p.Populated(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range all {
		if populated[resource] != slices.Contains(want, resource) {
			t.Errorf("at revision %d: %s holds objects: %v", revision, resource, populated[resource])
		}
	}
}

func TestPopulationCountsCreationsAndDeletions(t *testing.T) {
	p, client := newPopulation(t)
	expectPopulated(t, p, 0)
	changed := p.Changed()
	revision := put(t, client, "/registry/example.com/widgets/default/a", "/registry/example.com/widgets/default/a", "/registry/configmaps/default/a")
	<-changed
	expectPopulated(t, p, revision, widgets, configMaps)
	revision = put(t, client, "/registry/example.com/widgets/default/b")
	remove(t, client, "/registry/example.com/widgets/default/a")
	expectPopulated(t, p, revision, widgets, configMaps)
	revision = remove(t, client, "/registry/example.com/widgets/default/b")
	expectPopulated(t, p, revision, configMaps)
	remove(t, client, "/registry/example.com/widgets/default/never")
	revision = put(t, client, "/registry/example.com/gadgets/cluster-scoped", "/registry/apiregistration.k8s.io/apiservices/a")
	expectPopulated(t, p, revision, configMaps, gadgets, apiServices)
}

// TestPopulationCountsExistingObjects: objects from before the watch, and those of
// a type that is requested later.
func TestPopulationCountsExistingObjects(t *testing.T) {
	s, client := newStorage(t)
	s.recordPrefix(configMaps, "configmaps")
	put(t, client, "/registry/configmaps/default/a", "/registry/example.com/widgets/default/a", "/registry/example.com/widgets-not/default/a",
		"/elsewhere/example.com/gadgets/default/a")
	p := s.Population()
	if _, _, err := p.Populated(t.Context(), []schema.GroupResource{configMaps}); err != nil {
		t.Fatal(err)
	}
	expectPopulated(t, p, put(t, client, "/registry/example.com/widgets/default/b"), configMaps, widgets)
	if counts, err := p.Counts(t.Context()); err != nil || !maps.Equal(counts, map[schema.GroupResource]int64{configMaps: 1, widgets: 2}) {
		t.Errorf("the counts are %v, %v", counts, err)
	}
	remove(t, client, "/registry/example.com/widgets/default/b")
	expectPopulated(t, p, remove(t, client, "/registry/example.com/widgets/default/a"), configMaps)
}

// TestPopulationReachesRevisionsOutsideItsPrefix: the watch gets no event for a key outside
// of the prefix.
func TestPopulationReachesRevisionsOutsideItsPrefix(t *testing.T) {
	p, client := newPopulation(t)
	revision := put(t, client, "/elsewhere/a", "/elsewhere/b")
	if err := p.Reach(t.Context(), revision); err != nil || p.Counted() < revision {
		t.Errorf("revision %d: %v", revision, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Reach(ctx, revision+1); err == nil || p.Counted() > revision {
		t.Error("a revision that does not exist was reached")
	}
}

// TestPopulationCountsAfterACompaction: the revision of the last event has been compacted.
func TestPopulationCountsAfterACompaction(t *testing.T) {
	p, client := newPopulation(t)
	expectPopulated(t, p, 0)
	reach(t, p, put(t, client, "/registry/late.example.com/things/default/a"))
	revision := put(t, client, "/elsewhere/a", "/elsewhere/a")
	if _, err := client.Compact(t.Context(), revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, others, err := p.Populated(t.Context(), all); err != nil || len(others) != 1 {
		t.Errorf("a type with objects that was never asked for: %v, %v", others, err)
	}
	late := schema.GroupResource{Group: "late.example.com", Resource: "things"}
	if populated, others, err := p.Populated(t.Context(), append(all, late)); err != nil || !populated[late] || len(others) != 0 {
		t.Errorf("got %v, %v", populated, err)
	}
	// A resource that another caller has counted may be new to this one.
	if _, others, err := p.Populated(t.Context(), all); err != nil || len(others) != 1 {
		t.Errorf("got %v, %v", others, err)
	}
}

// TestPopulationIsNotAheadOfItsEvents: etcd sends the events of a watch that
// lags in several responses, each with the store's revision in its header.
func TestPopulationIsNotAheadOfItsEvents(t *testing.T) {
	p, client := newPopulation(t)
	expectPopulated(t, p, 0)
	current := put(t, client, "/registry/example.com/widgets/default/a")
	reach(t, p, current)
	ahead := clientv3.WatchResponse{Events: []*clientv3.Event{{
		Type: clientv3.EventTypePut,
		Kv:   &mvccpb.KeyValue{Key: []byte("/registry/example.com/widgets/default/b"), CreateRevision: current + 1, ModRevision: current + 1},
	}}}
	ahead.Header.Revision = current + 5000
	p.apply(ahead)
	if got := p.Counted(); got != current+1 {
		t.Errorf("the counts are said to be of revision %d, and are of %d", got, current+1)
	}
	progress := clientv3.WatchResponse{}
	progress.Header.Revision = current + 6000
	p.apply(progress)
	if got := p.Counted(); got != current+6000 {
		t.Errorf("after a response without events the counts are said to be of revision %d, and are of %d", got, current+6000)
	}
}
