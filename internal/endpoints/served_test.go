package endpoints

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	list, err := listOnceServed(t.Context(), &rest.Config{Host: "https://apiserver.invalid", Transport: pipeTransport{handler}}, slog.New(slog.DiscardHandler))
	if err != nil || list.GetResourceVersion() != "97" || len(list.Items) != 1 || list.Items[0].GetName() != "one" {
		t.Errorf("listed %+v, %v", list, err)
	}
	for range 5 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestTypeThatIsNotServed: it is requested rarely, and that is logged once.
func TestTypeThatIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		requests := 0
		handler := func(w http.ResponseWriter, _ *http.Request) {
			requests++
			_, _ = io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":404,"message":"not served"}}`) // into a pipe
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := listOnceServed(ctx, &rest.Config{Host: "https://apiserver.invalid", Transport: pipeTransport{handler}}, slog.New(slog.NewTextHandler(&log, nil)))
		if err == nil || requests < 100 || requests > 1000 {
			t.Errorf("%d requests in a minute: %v", requests, err)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "not served") {
			t.Errorf("the log is\n%s", text)
		}
	})
}
