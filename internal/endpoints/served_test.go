package endpoints

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// pipeTransport calls the handler without a connection, as the server does for its own
// clients: a write waits until the client has read it.
type pipeTransport struct{ handler http.HandlerFunc }

// RoundTrip implements [http.RoundTripper].
func (t pipeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, sink := io.Pipe()
	w := &pipeResponse{sink: sink, started: make(chan struct{})}
	go func() {
		defer func() { _ = sink.Close() }() // always nil
		t.handler(w, r)
	}()
	<-w.started
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

// pipeResponse implements [http.ResponseWriter].
type pipeResponse struct {
	sink    *io.PipeWriter
	once    sync.Once
	started chan struct{}
}

func (w *pipeResponse) Header() http.Header { return http.Header{} }

func (w *pipeResponse) WriteHeader(int) { w.once.Do(func() { close(w.started) }) }

func (w *pipeResponse) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.sink.Write(p)
}

// TestListByWatch: the list is complete when the watch says so, whenever its events come. A
// watch that is refused is requested again, and the server can write all its events.
func TestListByWatch(t *testing.T) {
	t.Parallel()
	var watches atomic.Int64
	failed := make(chan error, 10)
	handler := func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("watch") == "" || query.Get("sendInitialEvents") == "" {
			failed <- fmt.Errorf("the request is %s", r.URL)
		}
		w.WriteHeader(http.StatusOK)
		events := []string{`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"message":"too old resource version: 96"}}`}
		if watches.Add(1) > 1 {
			events = []string{
				`{"type":"ADDED","object":{"apiVersion":"kube-hyper-mini.io/v1alpha1","kind":"ServiceEndpoint","metadata":{"name":"one","resourceVersion":"90"}}}`,
				`{"type":"BOOKMARK","object":{"apiVersion":"kube-hyper-mini.io/v1alpha1","kind":"ServiceEndpoint","metadata":{"resourceVersion":"95"}}}`,
				`{"type":"BOOKMARK","object":{"apiVersion":"kube-hyper-mini.io/v1alpha1","kind":"ServiceEndpoint","metadata":{"resourceVersion":"97","annotations":{"k8s.io/initial-events-end":"true"}}}}`,
				`{"type":"ADDED","object":{"apiVersion":"kube-hyper-mini.io/v1alpha1","kind":"ServiceEndpoint","metadata":{"name":"later","resourceVersion":"98"}}}`,
			}
		}
		time.Sleep(10 * time.Millisecond) // the client has the answer, and no event yet
		for _, event := range events {
			_, err := io.WriteString(w, event+"\n")
			failed <- err
		}
		<-r.Context().Done()
	}
	list, err := listOnceServed(t.Context(), &rest.Config{Host: "https://apiserver.invalid", Transport: pipeTransport{handler}})
	if err != nil || list.GetResourceVersion() != "97" || len(list.Items) != 1 || list.Items[0].GetName() != "one" {
		t.Errorf("listed %+v, %v", list, err)
	}
	for range 5 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
