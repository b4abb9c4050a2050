package aggregation

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// serve runs an HTTPS server with the given certificate until the test ends.
func serve(t *testing.T, certificate tls.Certificate, handler http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the client reports it
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// discovery answers as an API server with one type does.
func discovery(group string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/apis/"+group+"/v1alpha1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{ // the client shows what is missing
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: group + "/v1alpha1",
			APIResources: []metav1.APIResource{{Name: "things", SingularName: "thing", Namespaced: true, Kind: "Thing", Verbs: []string{"get"}}},
		})
	})
	return mux
}

// blackhole listens and never accepts: the kernel completes connections, on
// which no answer comes.
func blackhole(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return "https://" + listener.Addr().String()
}

// TestUnavailableConditionNamesTheCause registers servers that are broken in one way
// each. None of them affects another.
func TestUnavailableConditionNamesTheCause(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	ca, other := newAuthority(t), newAuthority(t)
	const namespace = "broken"
	group := func(name string) string { return name + ".example.com" }
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	failing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusTeapot) })
	redirecting := http.RedirectHandler("/apis", http.StatusFound)
	tests := []struct{ name, target, reason, message string }{
		{"works", serve(t, ca.keyPair(t, "works.broken.svc"), discovery(group("works"))), "Passed", "all checks passed"},
		{"wrongca", serve(t, other.keyPair(t, "wrongca.broken.svc"), discovery(group("wrongca"))), "FailedDiscoveryCheck", "unknown authority"},
		{"wrongname", serve(t, ca.keyPair(t, "someoneelse.broken.svc"), discovery(group("wrongname"))), "FailedDiscoveryCheck", "not wrongname.broken.svc"},
		{"failing", serve(t, ca.keyPair(t, "failing.broken.svc"), failing), "FailedDiscoveryCheck", "418"},
		{"redirecting", serve(t, ca.keyPair(t, "redirecting.broken.svc"), redirecting), "FailedDiscoveryCheck", "302"},
		{"slow", serve(t, ca.keyPair(t, "slow.broken.svc"), slow), "FailedDiscoveryCheck", "no answer within"},
		{"silent", blackhole(t), "FailedDiscoveryCheck", "no answer within"},
		{"dead", target(harness.FreePort(t)), "FailedDiscoveryCheck", "connection refused"},
		{"nowhere", "", "ServiceNotFound", `create the ServiceEndpoint (kube-hyper-mini.io/v1alpha1) "nowhere" in namespace "broken"`},
	}
	e.createNamespace(namespace)
	for _, test := range tests {
		if test.target != "" {
			e.endpoint(namespace, test.name, test.target)
		}
		e.apiService(group(test.name), namespace, test.name, ca.bundle)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := e.forTest(t)
			status := "False"
			if test.reason == "Passed" {
				status = "True"
			}
			harness.Eventually(t, "the message says "+test.message, func() error {
				if message := e.waitAvailable(group(test.name), status, test.reason); !strings.Contains(message, test.message) {
					return errors.New(message)
				}
				return nil
			})
		})
	}
	t.Run("discovery answers for the others", func(t *testing.T) { discoveryAnswers(e.forTest(t), group) })
	t.Run("metrics", func(t *testing.T) { availabilityMetrics(e.forTest(t), group) })
	t.Run("status of the endpoints", func(t *testing.T) { endpointStatus(e.forTest(t), namespace) })
	t.Run("one of two targets is dead", func(t *testing.T) { oneOfTwoTargets(t, e.forTest(t), ca, namespace, group("replicas")) })
	t.Run("a change takes effect", func(t *testing.T) {
		e := e.forTest(t)
		e.endpoint(namespace, "nowhere", serve(t, ca.keyPair(t, "nowhere.broken.svc"), discovery(group("nowhere"))))
		e.waitAvailable(group("nowhere"), "True", "Passed")
		if err := e.Dynamic().Resource(serviceEndpoints).Namespace(namespace).Delete(t.Context(), "nowhere", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		e.waitAvailable(group("nowhere"), "False", "ServiceNotFound")
	})
}

// oneOfTwoTargets has two targets, of which one does not listen.
func oneOfTwoTargets(t *testing.T, e *environment, ca *authority, namespace, group string) {
	e.endpoint(namespace, "replicas", target(harness.FreePort(t)), serve(t, ca.keyPair(t, "replicas."+namespace+".svc"), discovery(group)))
	e.apiService(group, namespace, "replicas", ca.bundle)
	e.waitAvailable(group, "True", "Passed")
	for range 20 {
		if _, err := e.Client().Discovery().ServerResourcesForGroupVersion(group + "/v1alpha1"); err != nil {
			t.Errorf("a request with one of two targets dead: %v", err)
		}
	}
	e.waitReachable(namespace, "replicas", "1/2")
}

// discoveryAnswers requests all discovery documents while most servers are
// broken.
func discoveryAnswers(e *environment, group func(string) string) {
	e.t.Helper()
	out, err := e.TryKubectl("", "api-resources", "-o", "name")
	for _, want := range []string{"configmaps", "serviceendpoints.kube-hyper-mini.io", "things." + group("works")} {
		if !strings.Contains(out, want) {
			e.t.Errorf("discovery has no %s (%v):\n%s", want, err, out)
		}
	}
	if _, err := e.Client().Discovery().ServerResourcesForGroupVersion("v1"); err != nil {
		e.t.Errorf("discovery of v1: %v", err)
	}
	if _, err := e.Client().Discovery().ServerResourcesForGroupVersion(group("works") + "/v1alpha1"); err != nil {
		e.t.Errorf("discovery of the server that works: %v", err)
	}
	if _, err := e.Client().Discovery().ServerResourcesForGroupVersion(group("silent") + "/v1alpha1"); err == nil {
		e.t.Error("a server that never answers has resources")
	}
}

func availabilityMetrics(e *environment, group func(string) string) {
	e.t.Helper()
	harness.Eventually(e.t, "the metrics say who is unavailable", func() error {
		data, err := e.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(e.t.Context())
		if err != nil {
			return err
		}
		for _, want := range []string{
			fmt.Sprintf("aggregator_unavailable_apiservice{name=%q} 1", "v1alpha1."+group("dead")),
			fmt.Sprintf("aggregator_unavailable_apiservice{name=%q} 0", "v1alpha1."+group("works")),
			`aggregator_unavailable_apiservice{name="v1."} 0`,
		} {
			if !strings.Contains(string(data), want) {
				return fmt.Errorf("no %s", want)
			}
		}
		return nil
	})
}

func endpointStatus(e *environment, namespace string) {
	e.t.Helper()
	harness.Eventually(e.t, "kubectl shows which targets can be reached", func() error {
		out := e.Kubectl("", "get", "serviceendpoints", "-n", namespace)
		for _, line := range strings.Split(out, "\n") {
			switch {
			case strings.HasPrefix(line, "works") && !strings.Contains(line, "1/1"):
				return fmt.Errorf("works: %s", line)
			case strings.HasPrefix(line, "dead") && !strings.Contains(line, "0/1"):
				return fmt.Errorf("dead: %s", line)
			}
		}
		return nil
	})
	message := e.Kubectl("", "get", "serviceendpoint", "dead", "-n", namespace, "-o", "jsonpath={.status.conditions[0].message}")
	if !strings.Contains(message, "connection refused") {
		e.t.Errorf("the status of the dead one says %q", message)
	}
}
