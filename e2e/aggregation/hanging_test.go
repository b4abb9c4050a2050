package aggregation

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// hanging is an API server that answers discovery, never answers requests for
// its OpenAPI, and answers others once let is closed.
type hanging struct {
	http.Handler
	asked, ended atomic.Int64
	let          chan struct{}
}

// ServeHTTP implements [http.Handler].
func (h *hanging) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/openapi/"):
		h.asked.Add(1)
		<-r.Context().Done()
		h.ended.Add(1)
	case strings.HasSuffix(r.URL.Path, "/things/slow"):
		select {
		case <-h.let:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"Thing","metadata":{"name":"slow"}}`) // the client notices an incomplete response
		case <-r.Context().Done():
		}
	default:
		h.Handler.ServeHTTP(w, r)
	}
}

// TestHangingAggregatedServer: while a server does not answer a request for its OpenAPI, all
// other requests are served. That request is given up after a minute; a try that takes longer,
// as on a slow machine, is repeated on a new server.
func TestHangingAggregatedServer(t *testing.T) {
	t.Parallel()
	harness.KubectlBinary(t) // must not be built while the request is open
	for range 3 {
		if servesWhileOneHangs(t) {
			return
		}
	}
	t.Error("requests wait until the open OpenAPI request is given up")
}

// servesWhileOneHangs registers a server that never answers requests for its OpenAPI, makes
// other requests, and reports whether all of them were served while the first one was open.
func servesWhileOneHangs(t *testing.T) bool {
	t.Helper()
	e := newEnvironment(t)
	ca := newAuthority(t)
	const hangs, works = "hangs.example.com", "works.example.com"
	server := &hanging{Handler: discovery(hangs), let: make(chan struct{})}
	e.endpoint("hanging", "hangs", serve(t, ca.keyPair(t, "hangs.hanging.svc"), server))
	e.endpoint("hanging", "works", serve(t, ca.keyPair(t, "works.hanging.svc"), discovery(works)))
	e.apiService(hangs, "hanging", "hangs", ca.bundle)
	e.waitAvailable(hangs, "True", "Passed")
	// The first request has the documents built.
	if _, err := e.Client().Discovery().RESTClient().Get().AbsPath("/openapi/v3").DoRaw(t.Context()); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the server is asked for OpenAPI", func() error {
		if server.asked.Load() == 0 {
			return errors.New("not yet")
		}
		return nil
	})

	slow := make(chan error, 1)
	go func() {
		data, err := e.Client().Discovery().RESTClient().Get().AbsPath("/apis/" + hangs + "/v1alpha1/namespaces/default/things/slow").DoRaw(t.Context())
		if err == nil && !strings.Contains(string(data), "slow") {
			err = fmt.Errorf("the answer is %s", data)
		}
		slow <- err
	}()

	for _, path := range []string{"/openapi/v3", "/openapi/v3/api/v1", "/openapi/v2", "/apis", "/apis/" + hangs + "/v1alpha1"} {
		if _, err := e.Client().Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if out := e.Kubectl("", "explain", "configmap.data"); !strings.Contains(out, "FIELD: data") {
		t.Errorf("kubectl explain says:\n%s", out)
	}
	e.define(definition("new.example.com"))
	e.apiService(works, "hanging", "works", ca.bundle)
	e.waitAvailable(works, "True", "Passed")
	e.waitListed(works+"/v1alpha1", true)
	if err := e.Dynamic().Resource(apiServices).Delete(t.Context(), "v1alpha1."+works, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.waitListed(works+"/v1alpha1", false)
	served := server.ended.Load() == 0
	close(server.let)
	if err := <-slow; err != nil && served { // otherwise it may have taken too long as well
		t.Errorf("a server that takes its time: %v", err)
	}
	return served
}

// TestStopWithAHangingAggregatedServer: a stop does not wait for an aggregated call that
// hangs. The client gets an error, and the stop is orderly.
func TestStopWithAHangingAggregatedServer(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t, "--config", harness.ConfigFile(t, "serving: {stopGrace: 100ms}\n"))
	ca := newAuthority(t)
	const group = "hangs.example.com"
	called := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.Handle("/", discovery(group))
	mux.HandleFunc("/apis/"+group+"/v1alpha1/namespaces/default/things/slow", func(_ http.ResponseWriter, r *http.Request) {
		called <- struct{}{}
		<-r.Context().Done()
	})
	e.endpoint("hanging", "hangs", serve(t, ca.keyPair(t, "hangs.hanging.svc"), mux))
	e.apiService(group, "hanging", "hangs", ca.bundle)
	e.waitAvailable(group, "True", "Passed")
	answer := make(chan error)
	go func() {
		answer <- e.Client().Discovery().RESTClient().Get().AbsPath("/apis/" + group + "/v1alpha1/namespaces/default/things/slow").MaxRetries(0).Do(t.Context()).Error()
	}()
	<-called
	if code := e.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d:\n%s", code, e.Log())
	}
	// Which error it is depends on who notices the stop first: a timeout, the canceled request,
	// or a response that is aborted.
	if err := <-answer; err == nil {
		t.Error("the request that hangs has no error")
	}
}

// waitListed waits until aggregated discovery has a group version, or has it
// no more.
func (e *environment) waitListed(groupVersion string, want bool) {
	e.t.Helper()
	harness.Eventually(e.t, fmt.Sprintf("discovery lists %s: %t", groupVersion, want), func() error {
		_, lists, err := e.Client().Discovery().ServerGroupsAndResources()
		listed := false
		for _, list := range lists {
			listed = listed || list.GroupVersion == groupVersion
		}
		if listed != want {
			return fmt.Errorf("listed: %t (%w)", listed, err)
		}
		return nil
	})
}
