package endpoints

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

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

// TestWatchIsProbed: a list whose resource version cannot be watched is requested again,
// and the server can write all its events.
func TestWatchIsProbed(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	failed := make(chan error, 10)
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			_, _ = fmt.Fprintf(w, `{"apiVersion":"kube-hyper-mini.io/v1alpha1","kind":"ServiceEndpointList","metadata":{"resourceVersion":"%d"},"items":[]}`, 95+lists.Add(1))
			return
		}
		w.WriteHeader(http.StatusOK)
		switch r.URL.Query().Get("resourceVersion") {
		case "96":
			_, err := io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version: 96"}}`+"\n")
			failed <- err
		case "97":
			_, err := io.WriteString(w, `{"type":"BOOKMARK","object":{"kind":"ServiceEndpoint","metadata":{"resourceVersion":"98"}}}`+"\n")
			failed <- err
		}
		<-r.Context().Done()
	}
	list, err := listOnceServed(t.Context(), &rest.Config{Host: "https://apiserver.invalid", Transport: pipeTransport{handler}})
	if err != nil || list.GetResourceVersion() != "97" {
		t.Errorf("listed %+v, %v", list, err)
	}
	for range lists.Load() {
		if err := <-failed; err != nil {
			t.Errorf("the server could not write an event: %v", err)
		}
	}
}
