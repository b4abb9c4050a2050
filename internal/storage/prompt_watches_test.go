package storage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
				w, err := (&promptWatches{Interface: watchedStore{watch: inner}, requests: &progressRequests{}}).Watch(t.Context(), "key", storage.ListOptions{})
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
				if !inner.IsStopped() {
					t.Error("the watch of the store continues after the end")
				}
			})
		})
	}
}

// TestBookmarksAreRequested: watches with bookmarks request one in each interval.
func TestBookmarksAreRequested(t *testing.T) {
	for bookmarks, want := range map[bool]int{true: 10, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			w := &promptWatch{inner: watch.NewFake(), bookmarks: bookmarks, events: make(chan watch.Event), stop: stop, ended: make(chan struct{})}
			requests := 0
			go w.run(ctx, func(time.Duration) { requests++ })
			time.Sleep(10*bookmarkInterval + time.Second)
			w.Stop()
			if requests != want {
				t.Errorf("bookmarks %v: %d requests", bookmarks, requests)
			}
		})
	}
}

// TestBookmarksWithoutACache: a watch without a watch cache that accepts bookmarks gets
// etcd's revision, so that it can be continued after a compaction. Others get objects only.
func TestBookmarksWithoutACache(t *testing.T) {
	s, client := newStorage(t)
	awaitWatchProgress(t)
	codecs := serializer.NewCodecFactory(clientgoscheme.Scheme)
	codec := codecs.CodecForVersions(codecs.LegacyCodec(corev1.SchemeGroupVersion), codecs.UniversalDeserializer(), corev1.SchemeGroupVersion, corev1.SchemeGroupVersion)
	getter := s.RESTOptionsGetter(fixedGetter{prefix: "/configmaps", codec: codec}, func(schema.GroupResource) bool { return false })
	options, err := getter.GetRESTOptions(corev1.Resource("configmaps"), &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	store, destroy, err := options.Decorator(options.StorageConfig, options.ResourcePrefix, nil,
		func() runtime.Object { return &corev1.ConfigMap{} }, func() runtime.Object { return &corev1.ConfigMapList{} }, storage.DefaultNamespaceScopedAttr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer destroy()
	prompt := store.(*promptWatches)
	watches := map[bool]watch.Interface{}
	for _, bookmarks := range []bool{true, false} {
		predicate := storage.Everything
		predicate.AllowWatchBookmarks = bookmarks
		watches[bookmarks], err = store.Watch(t.Context(), "/configmaps/", storage.ListOptions{ResourceVersion: "1", Recursive: true, Predicate: predicate})
		if err != nil {
			t.Fatal(err)
		}
		defer watches[bookmarks].Stop()
	}
	revision := uint64(put(t, client, "/other/key"))
	for got := uint64(0); got < revision; { // the watches begin after a moment
		prompt.requests.mu.Lock()
		prompt.requests.last = time.Time{}
		prompt.requests.mu.Unlock()
		prompt.requestProgress(t.Context(), bookmarkInterval/2)
		select {
		case event := <-watches[true].ResultChan():
			got, err = storage.APIObjectVersioner{}.ObjectResourceVersion(event.Object)
			if event.Type != watch.Bookmark || err != nil {
				t.Fatalf("%s %+v, %v", event.Type, event.Object, err)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
	if err := store.Create(t.Context(), "/configmaps/default/one", object, nil, 0); err != nil {
		t.Fatal(err)
	}
	if event := <-watches[false].ResultChan(); event.Type != watch.Added {
		t.Errorf("the other watch got %s %+v", event.Type, event.Object)
	}
}
