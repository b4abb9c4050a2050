package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// roundTripper is a function as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBootstrapEndsWithTheStart: a start that is cut short while it writes the
// bootstrap policy sends nothing more, though its clients would retry what a server
// that stops refuses.
func TestBootstrapEndsWithTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	config := &rest.Config{Host: "https://apiserver.invalid", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, WrapTransport: func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if sent++; sent == 2 { // both lists are answered
				cancel()
			}
			header := http.Header{"Content-Type": []string{"application/json"}}
			return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(`{"items": []}`)), Request: r}, nil
		})
	}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return endingTransport{ctx, next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := kube.EnsureRBAC(t.Context(), client, nil); !errors.Is(err, errStopping) {
		t.Errorf("it says %v", err)
	}
	if sent != 2 {
		t.Errorf("%d requests were sent", sent)
	}
}
