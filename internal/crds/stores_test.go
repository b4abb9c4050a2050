package crds

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// TestVersionsOpenTheirStoresWhenUsed: upstream's handler makes a store for each version.
func TestVersionsOpenTheirStoresWhenUsed(t *testing.T) {
	s := newTestServer(t)
	s.install(t)
	s.create(t, "one")
	used := func() (used int) {
		s.stores.mu.Lock()
		defer s.stores.mu.Unlock()
		for store := range s.stores.open {
			if store.used() != nil {
				used++
			}
		}
		return used
	}
	if used() != 1 {
		t.Errorf("%d stores are open", used())
	}
	other := s.client.Resource(widgetResource.GroupResource().WithVersion("v1"))
	if list, err := other.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Fatalf("%v: %+v", err, list)
	}
	if used() != 2 {
		t.Errorf("%d stores are open", used())
	}
	for s.front.release(time.Now().Add(time.Hour)) == 0 {
		time.Sleep(time.Millisecond)
	}
	for open := 1; open > 0; { // upstream's handler closes them later
		time.Sleep(time.Millisecond)
		s.stores.mu.Lock()
		open = len(s.stores.open)
		s.stores.mu.Unlock()
	}
}

// TestClosedStore: a store that is closed before its first use is not opened any more.
func TestClosedStore(t *testing.T) {
	store := &lazyStore{resource: widgetResource.GroupResource(), open: func() (storage.Interface, factory.DestroyFunc, error) {
		t.Error("it is opened")
		return unready{}, func() {}, nil
	}}
	store.close()
	store.close()
	if err := store.GetList(t.Context(), "/", storage.ListOptions{}, nil); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	if store.used() != nil {
		t.Error("it is used")
	}
}

// TestStoreThatCannotBeOpened: the error reaches the client, and the next request tries
// again.
func TestStoreThatCannotBeOpened(t *testing.T) {
	failure := errors.New("no such thing")
	store := &lazyStore{resource: widgetResource.GroupResource(), open: func() (storage.Interface, factory.DestroyFunc, error) {
		return unready{}, func() {}, failure
	}}
	if err := store.Get(t.Context(), "/a", storage.GetOptions{}, nil); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
	failure = nil
	if err := store.Get(t.Context(), "/a", storage.GetOptions{}, nil); err != nil {
		t.Error(err)
	}
}

// TestReadsOfAClosedStore: a list and a watch do not wait for a store that is closed.
func TestReadsOfAClosedStore(t *testing.T) {
	for _, test := range []struct {
		name string
		read func(context.Context, readyStore) error
	}{
		{"list", func(ctx context.Context, s readyStore) error { return s.GetList(ctx, "/", storage.ListOptions{}, nil) }},
		{"watch", func(ctx context.Context, s readyStore) error {
			_, err := s.Watch(ctx, "/", storage.ListOptions{})
			return err
		}},
	} {
		for _, when := range []time.Duration{0, time.Second} {
			t.Run(test.name+" "+when.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &lazyStore{resource: widgetResource.GroupResource(), open: func() (storage.Interface, factory.DestroyFunc, error) {
						return unready{}, func() {}, nil
					}}
					start := time.Now()
					if when == 0 {
						store.close()
					} else {
						time.AfterFunc(when, store.close)
					}
					err := test.read(t.Context(), readyStore{store})
					if took := time.Since(start); !apierrors.IsServiceUnavailable(err) || took > when+readyPoll {
						t.Errorf("got %v after %s, want that it is closed after %s", err, took, when)
					}
				})
			})
		}
	}
}

// counted is a store with two objects.
type counted struct{ storage.Interface }

func (counted) Stats(context.Context) (storage.Stats, error) {
	return storage.Stats{ObjectCount: 2}, nil
}

// TestCounts: flow control gets the numbers of objects of open stores.
func TestCounts(t *testing.T) {
	s := newStores(nil)
	tracker := flowcontrolrequest.NewStorageObjectCountTracker()
	for name, store := range map[string]storage.Interface{"widgets": counted{}, "gadgets": nil} {
		s.open[&lazyStore{resource: schema.GroupResource{Group: "example.com", Resource: name}, store: store}] = tracker
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s.opened = make(chan struct{}, 1)
		go s.count(ctx)
		s.wakeCount()
		time.Sleep(2 * countDelay)
		if stats, err := tracker.Get("widgets.example.com"); err != nil || stats.ObjectCount != 2 {
			t.Errorf("widgets: %v, %+v", err, stats)
		}
		if stats, err := tracker.Get("gadgets.example.com"); err == nil {
			t.Errorf("gadgets, whose store is not open: %+v", stats)
		}
	})
}

// unready is a store whose watch cache is never filled, as with an object that
// cannot be decoded.
type unready struct{ storage.Interface }

func (unready) ReadinessCheck() error { return storage.ErrStorageNotReady }

func (unready) Get(context.Context, string, storage.GetOptions, runtime.Object) error { return nil }

func (unready) GetList(_ context.Context, _ string, options storage.ListOptions, _ runtime.Object) error {
	if options.Predicate.Limit > 0 && options.Predicate.Empty() {
		return nil // from etcd
	}
	return storage.ErrStorageNotReady
}

func (unready) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, storage.ErrStorageNotReady
}

// TestReadsOfAnUnreadyStore: lists and watches wait for the watch cache, reads of one
// object do not need it. The first page of all objects waits for a moment.
func TestReadsOfAnUnreadyStore(t *testing.T) {
	store := readyStore{unready{}}
	list := func(predicate storage.SelectionPredicate) func(context.Context) error {
		return func(ctx context.Context) error {
			return store.GetList(ctx, "/", storage.ListOptions{Predicate: predicate}, nil)
		}
	}
	some := labels.SelectorFromSet(labels.Set{"a": "b"})
	for _, test := range []struct {
		name string
		read func(context.Context) error
		want time.Duration
		err  error
	}{
		{"get", func(ctx context.Context) error { return store.Get(ctx, "/a", storage.GetOptions{}, nil) }, 0, nil},
		{"list", list(storage.SelectionPredicate{}), readyTimeout, storage.ErrStorageNotReady},
		{"first page", list(storage.SelectionPredicate{Limit: 500, Label: labels.Everything(), Field: fields.Everything()}), pageTimeout, nil},
		{"next page", list(storage.SelectionPredicate{Limit: 500, Label: labels.Everything(), Field: fields.Everything(), Continue: "next"}), 0, nil},
		{"page of some", list(storage.SelectionPredicate{Limit: 500, Label: some, Field: fields.Everything()}), readyTimeout, storage.ErrStorageNotReady},
		{"watch", func(ctx context.Context) error {
			_, err := store.Watch(ctx, "/", storage.ListOptions{})
			return err
		}, readyTimeout, storage.ErrStorageNotReady},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := test.read(t.Context())
				if took := time.Since(start); err != test.err || took != test.want {
					t.Errorf("got %v after %s, want %v after %s", err, took, test.err, test.want)
				}
			})
		})
	}
}

// filledLater is a store whose watch cache is filled when the time has come.
type filledLater struct {
	storage.Interface
	at time.Time
}

func (f filledLater) ReadinessCheck() error {
	if time.Now().Before(f.at) {
		return storage.ErrStorageNotReady
	}
	return nil
}

func (f filledLater) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	if f.ReadinessCheck() != nil {
		return errors.New("it is read from etcd")
	}
	return nil
}

// TestFirstPageOfASmallType: the page comes from the watch cache, so that the type can
// be watched from its resource version on.
func TestFirstPageOfASmallType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := readyStore{filledLater{at: time.Now().Add(pageTimeout / 2)}}
		if err := store.GetList(t.Context(), "/", storage.ListOptions{Predicate: storage.SelectionPredicate{Limit: 500}}, nil); err != nil {
			t.Error(err)
		}
	})
}
