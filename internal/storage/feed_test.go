package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/value"
)

const widgetKeys = "/registry/example.com/widgets/"

// rot is a transformer that encrypts by adding one to each byte.
type rot struct{}

func (rot) TransformFromStorage(_ context.Context, data []byte, key value.Context) ([]byte, bool, error) {
	if !bytes.HasPrefix(key.AuthenticatedData(), []byte(widgetKeys)) {
		return nil, false, errors.New("not a key of a widget")
	}
	return bytes.Map(func(r rune) rune { return r - 1 }, data), false, nil
}

func (rot) TransformToStorage(_ context.Context, data []byte, _ value.Context) ([]byte, error) {
	return bytes.Map(func(r rune) rune { return r + 1 }, data), nil
}

// hidden is a getter of resources that are stored by rot.
type hidden struct{ fixedGetter }

func (h hidden) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := h.fixedGetter.GetRESTOptions(resource, example)
	options.StorageConfig.Transformer = rot{}
	return options, err
}

func newFeed(t *testing.T, upstream generic.RESTOptionsGetter) (*Feed, *Storage, *clientv3.Client) {
	t.Helper()
	s, client := newStorage(t)
	if _, err := s.CustomResourceGetter(upstream, func(schema.GroupResource) bool { return true }); err != nil {
		t.Fatal(err)
	}
	f, err := s.Follow(widgets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, s, client
}

// widgetText is a widget as it is stored.
func widgetText(name, owner string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Widget","Metadata":{"uid":"other"},"metadata":{"name":%q,"namespace":"default","uid":"u-%s",
"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"a":"b"},"annotations":{"a":"b"},"managedFields":[{"manager":"m"}],"finalizers":["example.com/f"],
"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":%q,"controller":true}]},"spec":{"metadata":{"name":"no"}}}`, name, name, owner)
}

func putWidget(t *testing.T, client *clientv3.Client, name, owner string) int64 {
	t.Helper()
	response, err := client.Put(t.Context(), widgetKeys+"default/"+name, widgetText(name, owner))
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

// expectWidget compares the metadata with that of widgetText.
func expectWidget(t *testing.T, got any, name, owner string, revision int64) {
	t.Helper()
	m, ok := got.(*metav1.PartialObjectMetadata)
	if !ok {
		t.Fatalf("got %T", got)
	}
	if m.Name != name || m.Namespace != "default" || string(m.UID) != "u-"+name || m.ResourceVersion != strconv.FormatInt(revision, 10) ||
		len(m.Finalizers) != 1 || len(m.OwnerReferences) != 1 || string(m.OwnerReferences[0].UID) != owner || m.CreationTimestamp.Year() != 2026 ||
		m.Kind != "Widget" || m.Labels != nil || m.Annotations != nil || m.ManagedFields != nil {
		t.Errorf("got %+v, want %s of %s at %d", m, name, owner, revision)
	}
}

func next(t *testing.T, f *Feed, want watch.EventType) runtime.Object {
	t.Helper()
	changes, err := f.Next(t.Context())
	if err != nil || len(changes) != 1 || changes[0].Type != want {
		t.Fatalf("got %v, %v, want one event %s", changes, err, want)
	}
	return changes[0].Object
}

// TestFeed: a feed has the existing objects of its resource, and then their changes.
func TestFeed(t *testing.T) {
	f, s, client := newFeed(t, fixedGetter{})
	created := putWidget(t, client, "a", "one")
	put(t, client, "/registry/example.com/widgets-not/default/a", "/registry/configmaps/default/a")
	for i := range maxFeedPage + 1 {
		putWidget(t, client, fmt.Sprint("many", i), "many")
	}
	list, revision, err := f.List(t.Context())
	if err != nil || len(list) != maxFeedPage+2 || revision < created+maxFeedPage {
		t.Fatalf("%v: %d objects of %d", err, len(list), revision)
	}
	expectWidget(t, list[0], "a", "one", created)
	changed := putWidget(t, client, "a", "two")
	if got := f.Revision(); got >= changed {
		t.Errorf("the change of %d is called handled: %d", changed, got)
	}
	expectWidget(t, next(t, f, watch.Modified), "a", "two", changed)
	if got := f.Revision(); got >= changed {
		t.Errorf("the change of %d is called handled: %d", changed, got)
	}
	put(t, client, "/registry/example.com/gadgets/default/a")
	added := putWidget(t, client, "b", "one")
	expectWidget(t, next(t, f, watch.Added), "b", "one", added)
	gone := remove(t, client, widgetKeys+"default/a")
	deleted := next(t, f, watch.Deleted).(*metav1.PartialObjectMetadata)
	if deleted.Name != "a" || deleted.Namespace != "default" || deleted.ResourceVersion != strconv.FormatInt(gone, 10) {
		t.Errorf("deleted %+v", deleted)
	}
	waiting, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := f.Next(waiting)
		ended <- err
	}()
	other := put(t, client, "/registry/configmaps/default/b")
	if err := s.population.Reach(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for f.Revision() < other { // Next is about to be called
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestFeedThatMissedEvents: a feed continues after a break of the watch, and tells when
// changes were lost.
func TestFeedThatMissedEvents(t *testing.T) {
	f, s, client := newFeed(t, fixedGetter{})
	if _, err := f.Next(t.Context()); !errors.Is(err, ErrUnknownHistory) {
		t.Errorf("before the first list: %v", err)
	}
	if _, _, err := f.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	var added int64
	breakWatch(t, s.population, func() { added = putWidget(t, client, "a", "one") })
	expectWidget(t, next(t, f, watch.Added), "a", "one", added)
	breakWatch(t, s.population, func() {
		added = putWidget(t, client, "b", "one")
		if _, err := client.Compact(t.Context(), put(t, client, "/registry/configmaps/default/a")); err != nil {
			t.Error(err)
		}
	})
	if _, err := f.Next(t.Context()); !errors.Is(err, ErrUnknownHistory) {
		t.Fatalf("after a compaction: %v", err)
	}
	list, _, err := f.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v: %d objects", err, len(list))
	}
	expectWidget(t, list[1], "b", "one", added)
}

// TestFeedOfOtherEncodings: objects may be encrypted, or stored as CBOR.
func TestFeedOfOtherEncodings(t *testing.T) {
	f, _, client := newFeed(t, hidden{fixedGetter{}})
	text, err := rot{}.TransformToStorage(t.Context(), []byte(widgetText("a", "one")), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Put(t.Context(), widgetKeys+"default/a", string(text))
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := f.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%v: %d objects", err, len(list))
	}
	expectWidget(t, list[0], "a", "one", response.Header.Revision)

	codec := cbor.NewSerializer(unstructuredCreator{}, unstructuredCreator{})
	f, _, client = newFeed(t, fixedGetter{codec: runtime.NewCodec(codec, codec)})
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(widgetText("a", "one"))); err != nil {
		t.Fatal(err)
	}
	var encoded bytes.Buffer
	if err := codec.Encode(object, &encoded); err != nil {
		t.Fatal(err)
	}
	if response, err = client.Put(t.Context(), widgetKeys+"default/a", encoded.String()); err != nil {
		t.Fatal(err)
	}
	if list, _, err = f.List(t.Context()); err != nil || len(list) != 1 {
		t.Fatalf("%v: %d objects", err, len(list))
	}
	expectWidget(t, list[0], "a", "one", response.Header.Revision)
}

// unstructuredCreator makes and types unstructured objects.
type unstructuredCreator struct{ runtime.ObjectTyper }

func (unstructuredCreator) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object, nil
}

func (unstructuredCreator) ObjectKinds(object runtime.Object) ([]schema.GroupVersionKind, bool, error) {
	return []schema.GroupVersionKind{object.GetObjectKind().GroupVersionKind()}, false, nil
}

// TestFeedOfDamagedObjects: the errors of List and of Next name the key.
func TestFeedOfDamagedObjects(t *testing.T) {
	f, _, client := newFeed(t, fixedGetter{codec: unstructured.UnstructuredJSONScheme})
	if _, _, err := f.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", "x", `{"metadata":[]}`} {
		if _, err := client.Put(t.Context(), widgetKeys+"default/bad", text); err != nil {
			t.Fatal(err)
		}
		if changes, err := f.Next(t.Context()); err == nil || !bytes.Contains([]byte(err.Error()), []byte(widgetKeys+"default/bad")) {
			t.Errorf("%q: %v, %v", text, changes, err)
		}
		if list, _, err := f.List(t.Context()); err == nil || !bytes.Contains([]byte(err.Error()), []byte(widgetKeys+"default/bad")) {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
}

// TestFollowOnlyCustomResources: built-in resources have informers of their own.
func TestFollowOnlyCustomResources(t *testing.T) {
	s, _ := newStorage(t)
	if f, err := s.Follow(widgets); f != nil || err != nil {
		t.Errorf("without custom resources: %v, %v", f, err)
	}
	if _, err := s.CustomResourceGetter(fixedGetter{}, func(schema.GroupResource) bool { return true }); err != nil {
		t.Fatal(err)
	}
	s.recordPrefix(apiServices, "apiregistration.k8s.io/apiservices", true)
	if f, err := s.Follow(apiServices); f != nil || err != nil {
		t.Errorf("of a built-in resource: %v, %v", f, err)
	}
	s.recordPrefix(widgets, "example.com/widgets", false)
	if f, err := s.Follow(widgets); f == nil || err != nil {
		t.Errorf("of a custom resource: %v, %v", f, err)
	}
}
