package controllers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestStartEndsWhileDiscoveryHangs hangs if a stop waits for an API server that does not
// answer.
func TestStartEndsWhileDiscoveryHangs(t *testing.T) {
	requested := make(chan struct{})
	once := sync.OnceFunc(func() { close(requested) })
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		once()
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := newRemoteTypes(ctx, &rest.Config{Host: server.URL, Timeout: time.Hour})
		failed <- err
	}()
	<-requested
	cancel()
	if err := <-failed; err == nil {
		t.Error("the discovery of a server that does not answer has succeeded")
	}
}
