package controllers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// TestLiveListEndsWithItsContext fails if a stop waits for an API server that does not
// answer.
func TestLiveListEndsWithItsContext(t *testing.T) {
	requested := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(requested)
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := newInformerSet(ctx, nil, client).list(configMaps, "default")
		failed <- err
	}()
	<-requested
	cancel()
	if err := <-failed; err == nil {
		t.Error("the list of a server that does not answer has succeeded")
	}
}
