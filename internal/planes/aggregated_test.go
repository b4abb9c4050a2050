package planes

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

// remoteAPI is an aggregated API server whose watches have one event and do not end by themselves.
func remoteAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	object := `{"apiVersion":"remote.example.com/v1","kind":"Thing","metadata":{"name":"one","namespace":"default","resourceVersion":"5"}}`
	switch {
	case r.URL.Query().Get("watch") != "":
		_, _ = io.WriteString(w, `{"type":"ADDED","object":`+object+"}\n") // a client that has gone
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/things"):
		_, _ = io.WriteString(w, `{"apiVersion":"remote.example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"5"},"items":[`+object+`]}`)
	default:
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"APIResourceList","groupVersion":"remote.example.com/v1","resources":[`+
			`{"name":"things","kind":"Thing","namespaced":true,"verbs":["get","list","watch"]}]}`)
	}
}

// TestAggregatedWatches: a control plane sleeps although its client watches an aggregated API server,
// whose resourceVersions are others. The watch ends. It sleeps also after a client has gone.
func TestAggregatedWatches(t *testing.T) {
	t.Parallel()
	remote := httptest.NewTLSServer(http.HandlerFunc(remoteAPI))
	t.Cleanup(func() {
		remote.CloseClientConnections()
		remote.Close()
	})
	h := newHost(t)
	h.create(t, "acme", nil)
	config := h.configOf("acme")
	objects := newDynamic(t, config)
	endpoint := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kube-hyper-mini.io/v1alpha1", "kind": "ServiceEndpoint",
		"metadata": map[string]any{"name": "remote"}, "spec": map[string]any{"targets": []any{remote.URL}}}}
	endpoints := schema.GroupVersionResource{Group: "kube-hyper-mini.io", Version: "v1alpha1", Resource: "serviceendpoints"}
	if _, err := objects.Resource(endpoints).Namespace("default").Create(t.Context(), endpoint, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	services, err := aggregator.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	service := &apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.remote.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{Group: "remote.example.com", Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 1,
			InsecureSkipTLSVerify: true, Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "remote"}}}
	if _, err := services.ApiregistrationV1().APIServices().Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	things := objects.Resource(schema.GroupVersionResource{Group: "remote.example.com", Version: "v1", Resource: "things"}).
		Namespace("default")
	eventually(t, "the API server is available", func() bool {
		_, err := things.List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	leaving, leave := context.WithCancel(t.Context())
	for _, options := range []metav1.ListOptions{{}, {ResourceVersion: "5"}, {ResourceVersion: "1000000"}} {
		for _, ctx := range []context.Context{leaving, t.Context()} {
			opened, err := things.Watch(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			if event := <-opened.ResultChan(); event.Object == nil {
				t.Fatalf("the watch has ended: %v", event)
			}
			if ctx != leaving {
				defer func() {
					for range opened.ResultChan() { //nolint:revive // until its end
					}
				}()
			}
		}
	}
	leave()
	eventually(t, "the watches have ended", func() bool { return h.watches(t, "acme") == 3 })
	h.sleepNow(t, "acme")
	eventually(t, "the others have ended", func() bool { return h.watches(t, "acme") == 0 })
	if _, err := h.client(t, "acme").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
