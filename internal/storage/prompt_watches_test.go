package storage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// watchedStore has one watch.
type watchedStore struct {
	storage.Interface
	watch *watch.FakeWatcher
}

func (s watchedStore) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return s.watch, nil
}

// TestStuckClientsLoseTheirWatch: the events for a client that takes none must not fill the
// memory. One that is slow, or has nothing to take, keeps its watch.
func TestStuckClientsLoseTheirWatch(t *testing.T) {
	for name, test := range map[string]struct {
		between time.Duration // that the client lets pass before it takes an event
		events  int
		want    int // events that it gets
	}{
		"a client that takes none in time": {takeTimeout + time.Second, 10, 0},
		"a slow client":                    {takeTimeout - time.Second, 10, 10},
		"no events":                        {time.Hour, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := watch.NewFakeWithChanSize(test.events, false)
				for range test.events {
					inner.Action(watch.Modified, nil)
				}
				w, err := promptWatches{watchedStore{watch: inner}}.Watch(t.Context(), "key", storage.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got := 0
				for range max(test.events, 1) {
					time.Sleep(test.between)
					select {
					case _, open := <-w.ResultChan():
						if open {
							got++
						}
					default:
					}
					synctest.Wait()
				}
				if got != test.want {
					t.Errorf("it got %d events, want %d", got, test.want)
				}
				if stopped := inner.IsStopped(); stopped != (got < test.events) {
					t.Errorf("the watch of the store is stopped: %v", stopped)
				}
				w.Stop()
				if _, open := <-w.ResultChan(); open {
					t.Error("an event after the end")
				}
				synctest.Wait()
				if !inner.IsStopped() {
					t.Error("the watch of the store continues after the end")
				}
			})
		})
	}
}
