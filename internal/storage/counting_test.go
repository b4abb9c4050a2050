package storage

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// slowCounts counts nothing before released. It sends to begun for each request.
type slowCounts struct {
	clientv3.KV
	begun, released chan struct{}
}

func (s slowCounts) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if clientv3.OpGet(key, options...).IsCountOnly() {
		s.begun <- struct{}{}
		<-s.released
	}
	return s.KV.Get(ctx, key, options...)
}

// newSlowCounts is newPopulation with counts that wait for a test.
func newSlowCounts(t *testing.T) (*Population, *clientv3.Client, slowCounts) {
	t.Helper()
	s, client := newStorage(t)
	slow := slowCounts{client.KV, make(chan struct{}, 10), make(chan struct{})}
	own := *client
	own.KV = slow
	s.connection.Client = &own
	return s.Population(), client, slow
}

// TestCountsAndChangesTogether: the watch goes on while etcd counts, and the objects that
// come and go meanwhile are counted once.
func TestCountsAndChangesTogether(t *testing.T) {
	p, client, slow := newSlowCounts(t)
	put(t, client, "/registry/example.com/widgets/a", "/registry/example.com/widgets/b", "/registry/example.com/gadgets/a")
	done := make(chan map[schema.GroupResource]bool, 1)
	go func() {
		populated, _, err := p.Populated(t.Context(), []schema.GroupResource{widgets, gadgets})
		if err != nil {
			t.Error(err)
		}
		done <- populated
	}()
	<-slow.begun
	put(t, client, "/registry/example.com/widgets/c", "/registry/example.com/widgets/d")
	remove(t, client, "/registry/example.com/widgets/a")
	revision := remove(t, client, "/registry/example.com/gadgets/a")
	reach(t, p, revision)
	close(slow.released)
	if populated := <-done; !populated[widgets] || populated[gadgets] {
		t.Errorf("types with objects: %v", populated)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := [2]int64{p.counts["example.com/widgets"], p.counts["example.com/gadgets"]}; got != [2]int64{3, 0} {
		t.Errorf("counted %v widgets and gadgets, want 3 and 0", got)
	}
}

// TestCountsOfAnotherHistory: a count from before the watch began anew is not used.
func TestCountsOfAnotherHistory(t *testing.T) {
	p, client, slow := newSlowCounts(t)
	put(t, client, "/registry/example.com/widgets/a")
	done := make(chan map[schema.GroupResource]bool, 1)
	go func() {
		populated, _, err := p.Populated(t.Context(), []schema.GroupResource{widgets})
		if err != nil {
			t.Error(err)
		}
		done <- populated
	}()
	<-slow.begun
	remove(t, client, "/registry/example.com/widgets/a")
	now, err := client.Get(t.Context(), "none")
	if err != nil {
		t.Fatal(err)
	}
	reach(t, p, now.Header.Revision)
	p.mu.Lock()
	watching, watcher := p.watching, p.watcher
	p.mu.Unlock()
	p.begin(watching, watcher, now.Header.Revision)
	slow.released <- struct{}{}
	<-slow.begun
	slow.released <- struct{}{}
	if populated := <-done; populated[widgets] {
		t.Error("the deleted object counts")
	}
}

// TestCountsEndWithTheirCaller: a caller whose context ends does not wait for another's count.
func TestCountsEndWithTheirCaller(t *testing.T) {
	p, _, slow := newSlowCounts(t)
	done := make(chan error, 1)
	go func() {
		_, _, err := p.Populated(t.Context(), []schema.GroupResource{widgets})
		done <- err
	}()
	<-slow.begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.HoldEmpty(ctx, gadgets, 0); err == nil {
		t.Error("the resource was counted")
	}
	close(slow.released)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
