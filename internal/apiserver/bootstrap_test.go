package apiserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
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
	if err := kube.EnsureRBAC(t.Context(), client, nil, bootstrapPolicy()); !errors.Is(err, errStopping) {
		t.Errorf("it says %v", err)
	}
	if sent != 2 {
		t.Errorf("%d requests were sent", sent)
	}
}

// TestSystemNamespacesOfAFullDatabase: etcd without room refuses to create a namespace
// that exists, which the informer may not have yet. The server starts for reads and
// deletions.
func TestSystemNamespacesOfAFullDatabase(t *testing.T) {
	for reason, starts := range map[metav1.StatusReason]bool{
		storage.ReasonInsufficientStorage:  true,
		metav1.StatusReasonAlreadyExists:   true,
		metav1.StatusReasonInternalError:   false,
		metav1.StatusReasonServerTimeout:   false,
		metav1.StatusReasonTooManyRequests: false,
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: reason}}
		})
		s := &Server{informers: &readyInformers{SharedInformerFactory: informers.NewSharedInformerFactory(client, 0)}, namespaces: []string{metav1.NamespaceSystem}}
		if err := s.installNamespaces(t.Context(), client); (err == nil) != starts {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
