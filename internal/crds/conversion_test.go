package crds

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// convertingWebhook serves conversions, which write the version into the spec.
func convertingWebhook(t *testing.T) *apiextensionsv1.CustomResourceConversion {
	t.Helper()
	return conversionBy(t, func(w http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(raw.Raw); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			object.SetAPIVersion(review.Request.DesiredAPIVersion)
			object.Object["spec"] = map[string]any{"convertedTo": review.Request.DesiredAPIVersion}
			response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: object})
		}
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // a client that has gone hears nothing
	})
}

// conversionBy is the conversion by a webhook.
func conversionBy(t *testing.T, webhook http.HandlerFunc) *apiextensionsv1.CustomResourceConversion {
	t.Helper()
	server := httptest.NewTLSServer(webhook)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &server.URL, CABundle: authority}, ConversionReviewVersions: []string{"v1"},
	}}
}

func expectConverted(t *testing.T, object runtime.Object, want *unstructured.Unstructured) {
	t.Helper()
	got, ok := object.(*unstructured.Unstructured)
	if !ok {
		t.Errorf("got %+v", object)
		return
	}
	version, _, _ := unstructured.NestedString(got.Object, "spec", "convertedTo") // "" is an error below
	if got.GetAPIVersion() != "example.com/v1" || version != "example.com/v1" || got.GetName() != want.GetName() ||
		got.GetUID() != want.GetUID() || got.GetResourceVersion() != want.GetResourceVersion() {
		t.Errorf("got %+v, want %s at %s", got, want.GetName(), want.GetResourceVersion())
	}
}

// TestConvertedTypesComeBack: a type with a conversion webhook is released while clients
// read and watch both of its versions. No request fails, no watch ends, and resource
// versions grow.
func TestConvertedTypesComeBack(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.installConverted(t, convertingWebhook(t))
	old := s.client.Resource(widgetResource.GroupResource().WithVersion("v1"))
	waiting := s.watch(t, metav1.ListOptions{ResourceVersion: s.listEmpty(t)})
	s.front.release(time.Now().Add(time.Hour))
	one := s.create(t, "one")
	if event := <-waiting.ResultChan(); eventText(event) != "ADDED one" {
		t.Errorf("got %s", eventText(event))
	}
	waiting.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	for _, version := range []dynamic.NamespaceableResourceInterface{old, s.objects} {
		clients.Go(func() { readOnAndOn(ctx, t, version) })
	}
	let := 0
	for let < 5 {
		let += s.front.release(time.Now().Add(time.Hour))
	}
	cancel()
	clients.Wait()
	for s.front.resident() > 0 {
		s.front.release(time.Now().Add(time.Hour))
	}
	list, err := old.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%v: %+v", err, list)
	}
	expectConverted(t, &list.Items[0], one)
	watcher, err := old.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if gone := s.front.release(time.Now().Add(time.Hour)); gone != 0 {
		t.Errorf("%d watched types were let go", gone)
	}
	two := s.create(t, "two")
	event := <-watcher.ResultChan()
	if event.Type != watch.Added {
		t.Errorf("got %s", eventText(event))
	}
	expectConverted(t, event.Object, two)
}

// readOnAndOn lists until ctx ends.
func readOnAndOn(ctx context.Context, t *testing.T, objects dynamic.NamespaceableResourceInterface) {
	var last uint64
	for ctx.Err() == nil {
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("%v: %+v", err, list)
			return
		}
		version, err := strconv.ParseUint(list.GetResourceVersion(), 10, 64)
		if err != nil || version < last {
			t.Errorf("the list is of %q after one of %d: %v", list.GetResourceVersion(), last, err)
		}
		last = version
	}
}

// TestFailedConversionsAreDelayed: a watch cache whose objects cannot be converted asks the
// webhook once in a second, and not any more when the type is released.
func TestFailedConversionsAreDelayed(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	calls := make(chan time.Time, 1000)
	s.installConverted(t, conversionBy(t, func(w http.ResponseWriter, _ *http.Request) {
		calls <- time.Now()
		http.Error(w, "not today", http.StatusForbidden)
	}))
	s.create(t, "one")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	old := s.client.Resource(widgetResource.GroupResource().WithVersion("v1"))
	if list, err := old.List(ctx, metav1.ListOptions{}); err == nil {
		t.Fatalf("listed without a conversion: %+v", list)
	}
	for len(calls) > 0 {
		<-calls
	}
	first := <-calls
	const more = 4
	var last time.Time
	for range more {
		last = <-calls
	}
	if took := last.Sub(first); took < more/2*time.Second {
		t.Errorf("%d further calls of the webhook in %v", more, took)
	}
	for s.front.resident() > 0 {
		s.front.release(time.Now().Add(time.Hour))
	}
	for len(calls) > 0 {
		<-calls
	}
	time.Sleep(3 * time.Second)
	if n := len(calls); n > 1 { // one may have been under way
		t.Errorf("%d calls after the release of the type", n)
	}
}
