package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// filledAt is a store whose watch cache is filled when the time has come.
type filledAt struct {
	storage.Interface
	at time.Time
}

// unfilled is never filled, as with an object that cannot be decoded.
func unfilled() filledAt { return filledAt{at: time.Now().Add(time.Hour)} }

func (f filledAt) ReadinessCheck() error {
	if time.Now().Before(f.at) {
		return storage.ErrStorageNotReady
	}
	return nil
}

func (f filledAt) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	return f.ReadinessCheck()
}

func (f filledAt) GetList(_ context.Context, _ string, options storage.ListOptions, _ runtime.Object) error {
	if f.ReadinessCheck() != nil && store.ReadsUnfilled(options) {
		return errFromEtcd
	}
	return f.ReadinessCheck()
}

func (f filledAt) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, f.ReadinessCheck()
}

var errFromEtcd = errors.New("it is read from etcd")

// newCustomStore opens a store whose cache is cached.
func newCustomStore(t *testing.T, stores *customStores, cached func() (storage.Interface, error)) (opened storage.Interface, destroy func()) {
	t.Helper()
	add := func() (storage.Interface, func(), error) {
		made, err := cached()
		return made, func() {}, err
	}
	opened, destroy, err := stores.add(&customStore{Interface: filledAt{}, destroy: func() {}, add: add})
	if err != nil {
		t.Fatal(err)
	}
	return opened, destroy
}

func listed(ctx context.Context, of storage.Interface, predicate storage.SelectionPredicate) error {
	return of.GetList(ctx, "/", storage.ListOptions{Predicate: predicate}, nil)
}

// TestCacheIsMadeWhenUsed: upstream's handler makes a store for each version. An error
// reaches the client, and the next request tries again.
func TestCacheIsMadeWhenUsed(t *testing.T) {
	stores, made, failure := &customStores{}, 0, errors.New("no such thing")
	widgets, destroy := newCustomStore(t, stores, func() (storage.Interface, error) {
		made++
		return filledAt{}, failure
	})
	if err := widgets.Get(t.Context(), "/a", storage.GetOptions{}, nil); err != nil || made != 0 {
		t.Errorf("get: %v, %d caches", err, made)
	}
	if err := listed(t.Context(), widgets, storage.SelectionPredicate{}); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v", err)
	}
	failure = nil
	for range 2 {
		if err := listed(t.Context(), widgets, storage.SelectionPredicate{}); err != nil || made != 2 {
			t.Errorf("list: %v, made %d times", err, made)
		}
	}
	destroy()
	if len(stores.open) != 0 {
		t.Error("the store is still open")
	}
}

// TestReadsOfAClosedStore: a list and a watch do not wait for a store that is closed.
func TestReadsOfAClosedStore(t *testing.T) {
	for _, when := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			stores := &customStores{}
			widgets, _ := newCustomStore(t, stores, func() (storage.Interface, error) { return unfilled(), nil })
			start := time.Now()
			if when == 0 {
				stores.close()
			}
			time.AfterFunc(when, stores.close)
			err := listed(t.Context(), widgets, storage.SelectionPredicate{})
			if took := time.Since(start); !apierrors.IsServiceUnavailable(err) || took > when+cachePoll {
				t.Errorf("list: got %v after %s, want that it is closed after %s", err, took, when)
			}
			if _, err := widgets.Watch(t.Context(), "/", storage.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("watch: got %v", err)
			}
		})
	}
}

// TestReadsOfAnUnreadyStore: lists and watches wait for the watch cache, reads of one
// object do not need it. The first page of all objects waits for a moment, so that the type
// can be watched from its resource version on.
func TestReadsOfAnUnreadyStore(t *testing.T) {
	page := storage.SelectionPredicate{Limit: 500, Label: labels.Everything(), Field: fields.Everything()}
	next, some := page, page
	next.Continue, some.Label = "next", labels.SelectorFromSet(labels.Set{"a": "b"})
	list := func(predicate storage.SelectionPredicate) func(context.Context, storage.Interface) error {
		return func(ctx context.Context, s storage.Interface) error {
			return s.GetList(ctx, "/", storage.ListOptions{Predicate: predicate}, nil)
		}
	}
	for _, test := range []struct {
		name         string
		read         func(context.Context, storage.Interface) error
		filled, want time.Duration
		err          error
	}{
		{"get", func(ctx context.Context, s storage.Interface) error {
			return s.Get(ctx, "/a", storage.GetOptions{}, nil)
		}, time.Hour, 0, nil},
		{"list", list(storage.SelectionPredicate{}), time.Hour, fillTimeout, storage.ErrStorageNotReady},
		{"first page", list(page), time.Hour, pageTimeout, errFromEtcd},
		{"first page of a small type", list(page), pageTimeout / 2, pageTimeout / 2, nil},
		{"next page", list(next), time.Hour, 0, errFromEtcd},
		{"page of some", list(some), time.Hour, fillTimeout, storage.ErrStorageNotReady},
		{"watch", func(ctx context.Context, s storage.Interface) error {
			_, err := s.Watch(ctx, "/", storage.ListOptions{})
			return err
		}, time.Hour, fillTimeout, storage.ErrStorageNotReady},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				widgets, _ := newCustomStore(t, &customStores{}, func() (storage.Interface, error) { return filledAt{at: start.Add(test.filled)}, nil })
				err := test.read(t.Context(), widgets)
				if took := time.Since(start); err != test.err || took != test.want {
					t.Errorf("got %v after %s, want %v after %s", err, took, test.err, test.want)
				}
			})
		})
	}
}
