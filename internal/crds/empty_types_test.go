package crds

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// listEmpty lists the type, which has no objects, and returns the revision.
func (s *testServer) listEmpty(t *testing.T) string {
	t.Helper()
	list, err := s.objects.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Fatalf("%v: %+v", err, list)
	}
	if list.GetKind() != "WidgetList" || list.GetAPIVersion() != "example.com/v2" {
		t.Errorf("the list is of %s %s", list.GetAPIVersion(), list.GetKind())
	}
	return list.GetResourceVersion()
}

func (s *testServer) watch(t *testing.T, options metav1.ListOptions) watch.Interface {
	t.Helper()
	watcher, err := s.objects.Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	return watcher
}

func (s *testServer) create(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	created, err := s.objects.Namespace("default").Create(t.Context(), widget(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (s *testServer) delete(t *testing.T, name string) {
	t.Helper()
	if err := s.objects.Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// expectCold checks that no type was built.
func (s *testServer) expectCold(t *testing.T) {
	t.Helper()
	if resident := s.front.resident(); resident != 0 {
		t.Errorf("%d types are resident", resident)
	}
}

// label changes the labels of the CRD, on which its objects do not depend.
func (s *testServer) label(t *testing.T) {
	t.Helper()
	s.update(t, func(crd *apiextensions.CustomResourceDefinition) { crd.Labels = map[string]string{"a": "b"} })
}

// eventText is an event with the name of its object.
func eventText(event watch.Event) string {
	if object, ok := event.Object.(*unstructured.Unstructured); ok {
		return string(event.Type) + " " + object.GetName()
	}
	return fmt.Sprintf("%s %v", event.Type, event.Object)
}

// number is a resource version as a number.
func number(t *testing.T, version string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEmptyWatchContinuesUpstream: a watch of a type without objects builds nothing. It
// gets the first object and each later change once.
func TestEmptyWatchContinuesUpstream(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	version := s.listEmpty(t)
	tests := []struct {
		name    string
		options metav1.ListOptions
		initial bool // a bookmark comes first
	}{
		{"from the list", metav1.ListOptions{ResourceVersion: version}, false},
		{"from the list, with bookmarks", metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}, false},
		{"from now", metav1.ListOptions{}, false},
		{"from any revision", metav1.ListOptions{ResourceVersion: "0"}, false},
		{"with initial events", metav1.ListOptions{
			SendInitialEvents: ptr(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}, true},
		{"with initial events of a revision", metav1.ListOptions{
			SendInitialEvents: ptr(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, ResourceVersion: version,
		}, true},
		{"of one object", metav1.ListOptions{FieldSelector: "metadata.name=one"}, false},
	}
	watches := make([]watch.Interface, len(tests))
	for i, test := range tests {
		watches[i] = s.watch(t, test.options)
		if !test.initial {
			continue
		}
		event := <-watches[i].ResultChan()
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type != watch.Bookmark || object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" ||
			number(t, object.GetResourceVersion()) < number(t, version) || object.GetKind() != "Widget" {
			t.Errorf("%s: got %+v", test.name, event)
		}
	}
	s.expectCold(t)
	created := s.create(t, "one")
	s.delete(t, "one")
	for i, test := range tests {
		added, deleted := <-watches[i].ResultChan(), <-watches[i].ResultChan()
		if eventText(added) != "ADDED one" || eventText(deleted) != "DELETED one" {
			t.Errorf("%s: got %s, %s", test.name, eventText(added), eventText(deleted))
			continue
		}
		if got := added.Object.(*unstructured.Unstructured); got.GetResourceVersion() != created.GetResourceVersion() || got.GetUID() != created.GetUID() {
			t.Errorf("%s: got %+v, want %+v", test.name, got, created)
		}
	}
}

// TestWatchFromBeforeTheCache: watches from the revisions of earlier responses get all events, also
// if others have written since: the watch cache is made for the first of these watches.
func TestWatchFromBeforeTheCache(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	write := func(value string) { // to the store
		s.update(t, func(crd *apiextensions.CustomResourceDefinition) { crd.Labels = map[string]string{"a": value} })
	}
	version := s.listEmpty(t)
	write("before")
	created := s.create(t, "one")
	write("after")
	fromCreated := s.watch(t, metav1.ListOptions{ResourceVersion: created.GetResourceVersion()})
	fromList := s.watch(t, metav1.ListOptions{ResourceVersion: version})
	s.create(t, "two")
	for what, got := range map[string]watch.Event{"ADDED one": <-fromList.ResultChan(), "ADDED two": <-fromCreated.ResultChan()} {
		if eventText(got) != what {
			t.Errorf("got %s instead of %s", eventText(got), what)
		}
	}
}

// TestManyEmptyWatches: objects come and go while many watches wait, which
// begin at any moment, and the type is released. Each watch has every event once,
// in order.
func TestManyEmptyWatches(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	const waves, watches = 4, 60
	for wave := range waves {
		version := s.listEmpty(t)
		names := []string{fmt.Sprintf("a%d", wave), fmt.Sprintf("b%d", wave)}
		want := []string{"ADDED " + names[0], "DELETED " + names[0], "ADDED " + names[1], "DELETED " + names[1]}
		var all sync.WaitGroup
		half := make(chan struct{}, watches)
		for i := range watches {
			all.Go(func() {
				if i >= watches/2 { // they begin while objects come
					<-half
				}
				watcher, err := s.objects.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
				if err != nil {
					t.Error(err)
					return
				}
				defer watcher.Stop()
				half <- struct{}{}
				var got []string
				for len(got) < len(want) {
					event, open := <-watcher.ResultChan()
					if status, ok := event.Object.(*metav1.Status); ok && i >= watches/2 && status.Reason == metav1.StatusReasonExpired {
						return // it has begun too late: clients list again
					}
					if !open || event.Type == watch.Error {
						t.Errorf("wave %d: after %q the watch ended: %s", wave, got, eventText(event))
						return
					}
					got = append(got, eventText(event))
				}
				if !slices.Equal(got, want) {
					t.Errorf("wave %d: got %q, want %q", wave, got, want)
				}
			})
		}
		for range watches / 4 { // some wait
			<-half
			half <- struct{}{}
		}
		for _, name := range names {
			s.create(t, name)
			s.delete(t, name)
		}
		all.Wait()
		for s.front.release(time.Now().Add(time.Hour)) == 0 { // the watches are about to end
			time.Sleep(time.Millisecond)
		}
	}
}

// TestWatchesFromUnknownRevisions: a watch from a revision whose history is not known is
// refused, so that the client lists again. Nothing is built for that.
func TestWatchesFromUnknownRevisions(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	version := s.listEmpty(t)
	s.create(t, "one")
	s.delete(t, "one")
	for s.front.release(time.Now().Add(time.Hour)) == 0 {
		time.Sleep(time.Millisecond)
	}
	s.listEmpty(t) // waits until the deletion has been counted
	for _, old := range []string{"1", version} {
		event := <-s.watch(t, metav1.ListOptions{ResourceVersion: old}).ResultChan()
		if event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
			t.Errorf("from %s: got %s", old, eventText(event))
		}
	}
	s.expectCold(t)
}

// TestEmptyWatchesEndWithTheirDefinition: a new schema or the deletion of the CRD ends the
// watches, as with kube-apiserver; other changes do not.
func TestEmptyWatchesEndWithTheirDefinition(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	ended := s.watch(t, metav1.ListOptions{ResourceVersion: s.listEmpty(t)})
	s.change(t, "changed")
	if event, open := <-ended.ResultChan(); open {
		t.Errorf("got %s, want the end", eventText(event))
	}
	stays := s.watch(t, metav1.ListOptions{ResourceVersion: s.listEmpty(t)})
	s.label(t)
	s.expectCold(t)
	s.create(t, "one")
	if event := <-stays.ResultChan(); eventText(event) != "ADDED one" {
		t.Errorf("got %s", eventText(event))
	}
	s.delete(t, "one")
	gone := s.watch(t, metav1.ListOptions{})
	s.front.catalog.OnDelete(s.front.catalog.get("widgets.example.com"))
	if event, open := <-gone.ResultChan(); open {
		t.Errorf("got %s, want the end", eventText(event))
	}
}

// TestEmptyWatchesContinueDuringADeletion: they end with it. A finalizer may delay that.
func TestEmptyWatchesContinueDuringADeletion(t *testing.T) {
	t.Parallel()
	var w definitionChanges
	crd, deleting := light("as", "example.com", "1", 5), light("as", "example.com", "1", 6)
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	ended := w.end(crd.Name)
	w.changed(crd, deleting)
	select {
	case <-ended:
		t.Error("the beginning of a deletion ends watches")
	default:
	}
	w.changed(deleting, nil)
	select {
	case <-ended:
	default:
		t.Error("the end of a deletion ends no watches")
	}
}

// TestEmptyWatchesSendBookmarks: the bookmark of a watch has a revision from which the next
// watch misses no change.
func TestEmptyWatchesSendBookmarks(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	version := s.listEmpty(t)
	s.front.empty.bookmarkInterval = 10 * time.Millisecond
	watcher := s.watch(t, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	s.label(t)
	event, open := <-watcher.ResultChan()
	if !open || event.Type != watch.Bookmark {
		t.Fatalf("got %s, want a bookmark", eventText(event))
	}
	if told := event.Object.(*unstructured.Unstructured).GetResourceVersion(); number(t, told) <= number(t, version) {
		t.Errorf("told %s after a change later than %s", told, version)
	}
	late := s.watch(t, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}) // from before the change
	if event := <-late.ResultChan(); event.Type != watch.Bookmark {
		t.Errorf("got %s, want a bookmark", eventText(event))
	}
	brief := s.watch(t, metav1.ListOptions{ResourceVersion: version, TimeoutSeconds: ptr(int64(1))})
	if event, open := <-brief.ResultChan(); open {
		t.Errorf("got %s, want the end", eventText(event))
	}
	s.expectCold(t)
}

// TestLastBookmark: a watch sends a bookmark shortly before it ends.
func TestLastBookmark(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bookmarks         bool
		remaining, latest time.Duration
	}{
		{true, time.Hour, customresources.BookmarkInterval},
		{true, 50 * time.Second, 50*time.Second - customresources.LastBookmark},
		{true, time.Second, time.Second}, // the last one was sent
		{false, time.Hour, time.Hour},
	} {
		w := &emptyWatch{bookmarks: test.bookmarks, bookmarkInterval: customresources.BookmarkInterval, deadline: time.Now().Add(test.remaining)}
		if next := w.nextBookmark(); next > test.latest || time.Until(w.deadline)-next > test.remaining-test.latest {
			t.Errorf("%+v: the next one comes in %s", test, next)
		}
	}
}

// TestPagesOfAnyVersionHaveAllObjects: a list of any version that is limited, as informers
// send it, has the objects that were created since the watch cache began without any.
func TestPagesOfAnyVersionHaveAllObjects(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	held := s.watch(t, metav1.ListOptions{ResourceVersion: s.listEmpty(t)})
	for _, name := range []string{"one", "two", "three"} {
		s.create(t, name)
		if event := <-held.ResultChan(); eventText(event) != "ADDED "+name {
			t.Fatal(eventText(event))
		}
	}
	for range 2 {
		list, err := s.objects.List(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 2})
		if err != nil || len(list.Items) != 3 || list.GetContinue() != "" {
			t.Errorf("listed %+v, %v", list, err)
		}
	}
}

// TestUnusualRequestsAreLeftToUpstream: upstream's handler answers requests that need a
// schema or are invalid.
func TestUnusualRequestsAreLeftToUpstream(t *testing.T) {
	t.Parallel()
	for query, plain := range map[string]bool{
		"":                            true,
		"limit=500":                   true,
		"limit=500&resourceVersion=0": true,
		"limit=500&resourceVersion=5": false, // exactly that version
		"labelSelector=a%3Db":         true,
		"resourceVersion=5":           true,
		"watch=1":                     true,
		"watch=true&resourceVersion=0&allowWatchBookmarks=true": true,
		"fieldSelector=metadata.name%3Da":                       true,
		"fieldSelector=spec.size%3Da":                           false,
		"labelSelector=a%3D%3D%3D":                              false,
		"resourceVersion=5&resourceVersionMatch=Exact":          false,
		"continue=abc":                       false,
		"watch=1&resourceVersionMatch=Exact": false,
		"sendInitialEvents=true":             false,
		"resourceVersionMatch=NotOlderThan":  false,
	} {
		if got := plainOf(t, query, "application/json", "v2"); got != plain {
			t.Errorf("?%s: plain %t", query, got)
		}
	}
	for accept, plain := range map[string]bool{
		"":                      true,
		"*/*":                   true,
		"application/json, */*": true,
		"application/yaml":      true,
		"application/vnd.kubernetes.protobuf, application/json":                               true,
		"application/json;as=Table;v=v1;g=meta.k8s.io,application/json":                       true,
		"application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json":                  false,
		"application/yaml;as=Table;v=v1;g=meta.k8s.io":                                        false,
		"application/json;as=Other;v=v1;g=meta.k8s.io,application/json":                       true,
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": false,
		"application/cbor, application/json":                                                  false,
		"text/html":                                                                           false,
	} {
		if got := plainOf(t, "", accept, "v2"); got != plain {
			t.Errorf("Accept: %s: plain %t", accept, got)
		}
	}
	for query, plain := range map[string]bool{ // bookmarks are tables, too, and wrong options are explained
		"watch=1":                          true,
		"watch=1&allowWatchBookmarks=true": false,
		"includeObject=Object":             true,
		"includeObject=Nothing":            false,
		"watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true": false,
	} {
		if got := plainOf(t, query, kubectlAccept, "v2"); got != plain {
			t.Errorf("tables of ?%s: plain %t", query, got)
		}
	}
	if plainOf(t, "", "application/json", "v1") || plainOf(t, "", "application/json", "v3") {
		t.Error("a deprecated version, or one that there is not, is answered")
	}
}

// plainOf reports whether a list or a watch is answered without upstream's handler.
func plainOf(t *testing.T, query, accept, version string) bool {
	t.Helper()
	info := &request.RequestInfo{IsResourceRequest: true, Verb: "list", APIGroup: "example.com", APIVersion: version, Resource: "widgets"}
	if strings.HasPrefix(query, "watch") {
		info.Verb = "watch"
	}
	r := httptest.NewRequest(http.MethodGet, "/apis/example.com/"+version+"/widgets?"+query, nil)
	r.Header.Set("Accept", accept)
	return customresources.NewPlainRequest(r, info, widgets()) != nil
}
