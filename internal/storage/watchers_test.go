package storage

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestStoresShareWatchers: a watcher has several users. The end of one ends its own
// watches only.
func TestStoresShareWatchers(t *testing.T) {
	s, client := newStorage(t)
	made := 0
	pool := &watcherPool{make: func() clientv3.Watcher {
		made++
		return s.connection.NewWatcher()
	}}
	users := make([]clientv3.Watcher, storesPerWatcher+1)
	events := make([]clientv3.WatchChan, len(users))
	for i := range users {
		users[i] = pool.get()
		events[i] = users[i].Watch(t.Context(), "key", clientv3.WithRev(1))
	}
	if made != 2 {
		t.Errorf("%d watchers for %d stores", made, len(users))
	}
	ended := users[0].Watch(t.Context(), "key")
	for range 2 {
		if err := users[0].Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, open := <-ended; open {
		t.Error("a watch continues after its store was closed")
	}
	put(t, client, "key")
	for i, events := range events[1:] {
		if response := <-events; len(response.Events) != 1 {
			t.Errorf("watch %d got %+v", i+1, response)
		}
	}
	pool.get()
	if made != 2 {
		t.Errorf("%d watchers: a free place was not used", made)
	}
	if err := users[storesPerWatcher].Close(); err != nil {
		t.Fatal(err)
	}
	if len(pool.open) != 1 {
		t.Errorf("%d watchers are open, of which one has users", len(pool.open))
	}
	ctx, cancel := context.WithCancel(t.Context())
	events[1] = users[1].Watch(ctx, "key")
	cancel()
	if _, open := <-events[1]; open {
		t.Error("a watch continues after its context")
	}
}
