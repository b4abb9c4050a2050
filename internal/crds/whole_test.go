package crds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
)

// manyDefinitions are more than two pages.
const manyDefinitions = 2*listPage + 5

// createDefinition creates the CRD of number n: every third is labelled.
func (s *testServer) createDefinition(t *testing.T, n int) {
	t.Helper()
	crd := newDefinition(t, unconverted)
	crd.Spec.Group = fmt.Sprintf("group%03d.example.com", n)
	crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
	if n%3 == 0 {
		crd.Labels = map[string]string{"third": "yes"}
	}
	if _, err := s.registry.Create(definitionContext(t), crd, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// encoders encode as the API does.
func encoders(t *testing.T) map[string]runtime.Encoder {
	t.Helper()
	all := map[string]runtime.Encoder{}
	for _, info := range apiextensionsapiserver.Codecs.SupportedMediaTypes() {
		all[info.MediaType] = apiextensionsapiserver.Codecs.EncoderForVersion(info.Serializer, apiextensionsv1.SchemeGroupVersion)
		if info.PrettySerializer != nil {
			all[info.MediaType+", pretty"] = apiextensionsapiserver.Codecs.EncoderForVersion(info.PrettySerializer, apiextensionsv1.SchemeGroupVersion)
		}
	}
	return all
}

func encoded(t *testing.T, encoder runtime.Encoder, obj runtime.Object) string {
	t.Helper()
	text, err := runtime.Encode(encoder, obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestListsOfWholeDefinitions: they are those of upstream's storage, in all encodings.
func TestListsOfWholeDefinitions(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	reader, ctx := s.front.definitions.reader, definitionContext(t)
	for _, n := range []int{0, 1, manyDefinitions} {
		for i := range n {
			if _, err := s.registry.Get(ctx, fmt.Sprintf("widgets.group%03d.example.com", i), &metav1.GetOptions{}); apierrors.IsNotFound(err) {
				s.createDefinition(t, i)
			}
		}
		for what, options := range map[string]metainternalversion.ListOptions{
			"all": {}, "any version": {ResourceVersion: "0"}, "not older": {ResourceVersion: "1"},
			"exact":    {ResourceVersion: fmt.Sprint(1 + min(n, 1)), ResourceVersionMatch: metav1.ResourceVersionMatchExact},
			"labelled": {LabelSelector: labels.SelectorFromSet(labels.Set{"third": "yes"})},
			"none":     {LabelSelector: labels.SelectorFromSet(labels.Set{"third": "no"})},
			"one":      {FieldSelector: fields.OneTermEqualSelector("metadata.name", "widgets.group000.example.com")},
			"a page":   {Limit: 7}, "a large page": {Limit: 150},
		} {
			want, err := s.registry.REST.Store.List(ctx, &options)
			if err != nil {
				t.Fatal(err)
			}
			for name, encoder := range encoders(t) {
				for range 2 { // made, and kept
					got, err := reader.List(ctx, &options)
					if err != nil {
						t.Fatal(err)
					}
					if got, want := encoded(t, encoder, got), encoded(t, encoder, want); got != want {
						t.Fatalf("%d CRDs, %s, %s: the list is\n%.400q\nwant\n%.400q", n, what, name, got, want)
					}
				}
			}
		}
	}
	if _, err := reader.List(ctx, &metainternalversion.ListOptions{ResourceVersion: "999999999"}); !storage.IsTooLargeResourceVersion(err) {
		t.Errorf("a list of a future version: %v", err)
	}
}

// TestPagesOfOneRevision: a list does not have what is written while it is read.
func TestPagesOfOneRevision(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	for i := range listPage + 1 {
		s.createDefinition(t, i)
	}
	ctx := definitionContext(t)
	want, err := s.registry.REST.Store.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.front.definitions.reader.List(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.createDefinition(t, listPage+1)
	encoder := encoders(t)[runtime.ContentTypeJSON]
	first := &firstWrite{}
	if err := encoder.Encode(list, first); err != nil || first.size < 128<<10 {
		t.Errorf("%v: the first write has %d bytes: the answer is not compressed", err, first.size)
	}
	for range 2 { // the audit log may encode it as well
		if encoded(t, encoder, list) != encoded(t, encoder, want) {
			t.Error("the list is not that of its resource version")
		}
	}
}

// failingList is a list of that many pages of one CRD; reading the next page fails.
func failingList(t *testing.T, r *wholeReader, pages int) *storedDefinitionList {
	t.Helper()
	page, err := r.page(definitionContext(t), &metainternalversion.ListOptions{Limit: 1})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%v: %+v", err, page)
	}
	page.Continue = ""
	list := *page
	list.next = func(context.Context) (*storedDefinitionList, error) {
		if pages--; pages == 0 {
			return nil, apierrors.NewInternalError(errors.New("etcd does not answer"))
		}
		next := list
		return &next, nil
	}
	return &list
}

// TestListThatFails: a client sees that a list is not complete: it gets the error, or the
// end of the connection if the response has begun.
func TestListThatFails(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	encoder := encoders(t)[runtime.ContentTypeJSON]
	for pages, begun := range map[int]bool{1: false, 3: false, 2000: true} {
		t.Run(fmt.Sprint(pages, " pages"), func(t *testing.T) {
			list := failingList(t, s.front.definitions.reader, pages)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				responsewriters.SerializeObject(runtime.ContentTypeJSON, encoder, w, r, http.StatusOK, list)
			}))
			t.Cleanup(server.Close)
			response, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }() // read to the end
			body, err := io.ReadAll(response.Body)
			switch {
			case begun && !errors.Is(err, io.ErrUnexpectedEOF):
				t.Errorf("%d, %v: a client takes %d bytes for the whole list", response.StatusCode, err, len(body))
			case !begun && (err != nil || response.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), "etcd does not answer")):
				t.Errorf("%d, %v: %.400s", response.StatusCode, err, body)
			}
		})
	}
}

// firstWrite records the size of the first write.
type firstWrite struct{ size int }

func (f *firstWrite) Write(p []byte) (int, error) {
	if f.size == 0 {
		f.size = len(p)
	}
	return len(p), nil
}

// next returns the text of the next event.
func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case event, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return string(event.Type) + " " + encoded(t, encoders(t)[runtime.ContentTypeJSON], event.Object)
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	return ""
}

// TestWatchesOfWholeDefinitions: they have the events of upstream's storage.
func TestWatchesOfWholeDefinitions(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	for i := range manyDefinitions {
		s.createDefinition(t, i)
	}
	for what, c := range map[string]struct {
		options metainternalversion.ListOptions
		begin   int // events
	}{
		"all":       {metainternalversion.ListOptions{}, manyDefinitions},
		"any":       {metainternalversion.ListOptions{ResourceVersion: "0"}, manyDefinitions},
		"from then": {metainternalversion.ListOptions{ResourceVersion: "1"}, manyDefinitions},
		"labelled":  {metainternalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"third": "yes"})}, (manyDefinitions + 2) / 3},
		"a list": {metainternalversion.ListOptions{
			SendInitialEvents: ptr(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}, manyDefinitions + 1},
		"from now": {metainternalversion.ListOptions{SendInitialEvents: ptr(false)}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			ctx := definitionContext(t)
			want, err := s.registry.REST.Store.Watch(ctx, &c.options)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Stop()
			got, err := s.front.definitions.reader.Watch(ctx, &c.options)
			if err != nil {
				t.Fatal(err)
			}
			for range c.begin {
				if got, want := next(t, got), next(t, want); got != want {
					t.Fatalf("the event is\n%.400s\nwant\n%.400s", got, want)
				}
			}
			// A new CRD, a change of it, and its end.
			s.createDefinition(t, 900)
			s.annotate(t, "widgets.group900.example.com")
			if _, _, err := s.registry.REST.Store.Delete(ctx, "widgets.group900.example.com", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if got, want := next(t, got), next(t, want); got != want {
					t.Fatalf("the event is\n%.400s\nwant\n%.400s", got, want)
				}
			}
			got.Stop()
			for range got.ResultChan() { // closed
			}
		})
	}
}

// annotate changes a CRD.
func (s *testServer) annotate(t *testing.T, name string) {
	t.Helper()
	ctx := definitionContext(t)
	obj, err := s.registry.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crd := obj.(*apiextensions.CustomResourceDefinition)
	crd.Annotations, crd.Labels = map[string]string{"changed": "yes"}, map[string]string{"third": "yes"}
	if _, _, err := s.registry.Update(ctx, name, rest.DefaultUpdatedObjectInfo(crd), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestWatchEndsWithItsRequest: its goroutine ends while no client reads.
func TestWatchEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	for i := range 3 {
		s.createDefinition(t, i)
	}
	ctx, cancel := context.WithCancel(definitionContext(t))
	w, err := s.front.definitions.reader.Watch(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range w.ResultChan() { // it is closed
	}
}

// TestMalformedDefinitionInAList: the list fails.
func TestMalformedDefinitionInAList(t *testing.T) {
	t.Parallel()
	protobuf, data := encodedWidgets(t)
	codec := &storedCodec{Codec: protobuf, encodings: newEncodings()}
	whole := &storedDefinition{}
	if _, _, err := codec.Decode(data, nil, whole); err != nil {
		t.Fatal(err)
	}
	if _, _, err := codec.Decode(data, nil, &apiextensions.CustomResourceDefinition{}); err == nil {
		t.Error("decodes into another type")
	}
	broken := *whole
	broken.UID, broken.data = "2", data[:len(data)/2]
	list := &storedDefinitionList{Items: []storedDefinition{*whole, broken}, ctx: t.Context()}
	for name, encoder := range encoders(t) {
		if text, err := runtime.Encode(encoder, list); err == nil || !strings.Contains(err.Error(), "widgets.example.com") || len(text) > 0 {
			t.Errorf("%s: %v: %.100q", name, err, text)
		}
		if text, err := runtime.Encode(encoder, &broken); err == nil || len(text) > 0 {
			t.Errorf("%s: %v: %.100q", name, err, text)
		}
	}
}

// TestEncodingsAreShared: concurrent requests wait for one encoding, and encodings that are
// not used are dropped.
func TestEncodingsAreShared(t *testing.T) {
	t.Parallel()
	e := newEncodings()
	made := atomic.Int64{}
	large := bytes.Repeat([]byte("a CRD "), 1000)
	write := func(key encodingKey) []byte {
		var out bytes.Buffer
		if err := e.write(&out, key, func(w io.Writer) error {
			made.Add(1)
			_, err := w.Write(large)
			return err
		}); err != nil {
			t.Error(err)
		}
		return out.Bytes()
	}
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			for _, version := range []string{"1", "2"} {
				if !bytes.Equal(write(encodingKey{"json", "uid", version}), large) {
					t.Error("another text")
				}
			}
		})
	}
	clients.Wait()
	if made.Load() != 2 {
		t.Errorf("encoded %d times, want once for each version", made.Load())
	}
	if kept := e.kept.Get(encodingKey{"json", "uid", "1"}); cap(kept) > len(large)/4 {
		t.Errorf("%d bytes of memory are kept for %d", cap(kept), len(kept))
	}
	e.kept.Clear()
	if write(encodingKey{"json", "uid", "1"}); made.Load() != 3 {
		t.Error("an encoding is there that was dropped")
	}
	failed := e.write(io.Discard, encodingKey{"json", "uid", "3"}, func(io.Writer) error { return io.ErrUnexpectedEOF })
	if failed != io.ErrUnexpectedEOF {
		t.Errorf("a failure is %v", failed)
	}
	if write(encodingKey{"json", "uid", "3"}); made.Load() != 4 {
		t.Error("a failure is kept")
	}
}
