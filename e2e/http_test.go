package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// body gets a URL, which must answer with the status code.
func body(t *testing.T, client *http.Client, url string, status int) string {
	t.Helper()
	got, text, err := ask(t, client, url)
	if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Fatalf("%s answers %d, want %d:\n%s", url, got, status, text)
	}
	return text
}

// healthy is the body of the answer with status 200, which a server whose disk
// is slow gives after a while.
func healthy(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	var text string
	harness.Eventually(t, url+" answers 200", func() (err error) {
		text, err = answers(t, client, url, http.StatusOK, "")
		return err
	})
	return text
}

// answers sends one request and checks the status and a part of the response.
func answers(t *testing.T, client *http.Client, url string, status int, part string) (string, error) {
	t.Helper()
	got, text, err := ask(t, client, url)
	if err == nil && (got != status || !strings.Contains(text, part)) {
		err = fmt.Errorf("status %d: %s", got, text)
	}
	return text, err
}

func ask(t *testing.T, client *http.Client, url string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }() // read to the end
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// anonymous is a client without credentials.
func anonymous() *http.Client {
	// The test is about anonymous requests, not about the server's certificate.
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// admin is a client with the administrator's credentials, and the server's URL.
func admin(t *testing.T, s *harness.Server) (*http.Client, string) {
	t.Helper()
	config := s.RESTConfig()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, config.Host
}

// TestAnonymousRequestsReachHealthOnly: load balancers and probes have no credentials.
func TestAnonymousRequestsReachHealthOnly(t *testing.T) {
	t.Parallel()
	host := shared.Server(t).RESTConfig().Host
	client := anonymous()
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if got := healthy(t, client, host+path); got != "ok" {
			t.Errorf("%s answers %q", path, got)
		}
	}
	for _, path := range []string{"/", "/version", "/api", "/apis", "/openapi/v3", "/metrics", "/debug/pprof/", "/api/v1/namespaces",
		"/kube-hyper-mini/status", "/livez/ping", "/readyz/etcd"} {
		body(t, client, host+path, http.StatusUnauthorized)
	}
}

func TestHealthEndpoints(t *testing.T) {
	t.Parallel()
	client, host := admin(t, shared.Server(t))
	for path, checks := range map[string][]string{
		"/livez":   {"ping", "etcd"},
		"/readyz":  {"ping", "etcd", "etcd-readiness", "informer-sync", "kube-hyper-mini", "poststarthook/start-apiextensions-controllers"},
		"/healthz": {"ping", "etcd"},
	} {
		answer := healthy(t, client, host+path+"?verbose")
		for _, check := range checks {
			harness.Contains(t, answer, "[+]"+check+" ok")
		}
	}
}

// TestMetrics: one page has the series of all parts, each once.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	client, host := admin(t, s)
	page := body(t, client, host+"/metrics", http.StatusOK)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatalf("the page is not in prometheus' format: %v", err)
	}
	for _, name := range []string{
		"apiserver_request_total", "apiserver_storage_objects", "apiserver_storage_size_bytes", "apiserver_flowcontrol_current_executing_requests",
		"workqueue_depth", "garbagecollector_controller_resources_sync_error_total",
		"etcd_server_has_leader", "etcd_mvcc_db_total_size_in_bytes", "etcd_disk_wal_fsync_duration_seconds",
		"process_resident_memory_bytes", "go_goroutines", "kubernetes_build_info", "kubernetes_feature_enabled", "version_info",
	} {
		if families[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	// The parser puts families that come twice together.
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		series := strings.TrimSpace(line)
		if !strings.HasPrefix(line, "# TYPE ") {
			if strings.HasPrefix(line, "#") {
				continue
			}
			series = series[:strings.LastIndexByte(series, ' ')]
		}
		if seen[series] {
			t.Errorf("twice: %s", series)
		}
		seen[series] = true
	}
	queues := map[string]bool{}
	for _, metric := range families["workqueue_depth"].GetMetric() {
		for _, label := range metric.GetLabel() {
			queues[label.GetValue()] = true
		}
	}
	for _, queue := range []string{"namespace", "garbage_collector_attempt_to_delete", "garbage_collector_graph_changes", "serviceaccount", "crd_finalizer"} {
		if !queues[queue] {
			t.Errorf("no queue %s among %v", queue, queues)
		}
	}
}

// TestPprofRequiresAuthorization: a heap holds secrets.
func TestPprofRequiresAuthorization(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	client, host := admin(t, s)
	harness.Contains(t, body(t, client, host+"/debug/pprof/goroutine?debug=1", http.StatusOK), "goroutine profile:")
	ns := namespace(t, s)
	s.Kubectl("", "create", "serviceaccount", "curious", "-n", ns)
	kubectl := outsider(t, s, "--token", s.Kubectl("", "create", "token", "curious", "-n", ns))
	for _, path := range []string{"/debug/pprof/heap", "/metrics", "/kube-hyper-mini/status"} {
		out, err := kubectl("get", "--raw", path)
		if err == nil {
			t.Errorf("a user without rights gets %s", path)
		}
		harness.Contains(t, out, "Forbidden")
	}
}
