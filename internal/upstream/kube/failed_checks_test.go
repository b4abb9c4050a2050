package kube

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestFailedChecks: the names are those of the health endpoint's response, as a client
// gets it.
func TestFailedChecks(t *testing.T) {
	mux := http.NewServeMux()
	healthz.InstallReadyzHandler(mux, healthz.PingHealthz,
		healthz.NamedCheck("kms-providers", func(*http.Request) error { return errors.New("no answer") }),
		healthz.NamedCheck("poststarthook/one", func(*http.Request) error { return errors.New("not finished") }))
	server := httptest.NewServer(mux)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(t.Context())
	if err == nil {
		t.Fatal("it is ready")
	}
	if got, want := FailedChecks(err), "kms-providers, poststarthook/one"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := FailedChecks(errors.New("connection refused")); got != "connection refused" {
		t.Errorf("another error is %q", got)
	}
}
