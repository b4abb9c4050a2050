package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestScrapeIdentity: one command makes what Prometheus needs, and no more rights.
func TestScrapeIdentity(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	dir := filepath.Join(t.TempDir(), "scrape")
	name := unique("prometheus")
	issue := func() {
		t.Helper()
		harness.Contains(t, harness.Runs(t, harness.ExitOK, "kubeconfig", "scrape", dir, "--service-account", "monitoring/"+name, "--kubeconfig", s.Kubeconfig), "prometheus.yaml scrapes https://")
	}
	issue()
	config := struct {
		Scrape []struct {
			Scheme        string
			Authorization struct {
				File string `json:"credentials_file"`
			}
			TLS struct {
				CA string `json:"ca_file"`
			} `json:"tls_config"`
			Static []struct{ Targets []string } `json:"static_configs"`
		} `json:"scrape_configs"`
	}{}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := yaml.Unmarshal(read("prometheus.yaml"), &config); err != nil || len(config.Scrape) != 1 {
		t.Fatalf("%v: %+v", err, config)
	}
	job := config.Scrape[0]
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(job.TLS.CA))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	get := func(path string) int {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, job.Scheme+"://"+job.Static[0].Targets[0]+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(read(job.Authorization.File))))
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close() // only its status counts
		return response.StatusCode
	}
	harness.Eventually(t, "RBAC knows the binding", func() error { return isStatus(get("/metrics"), http.StatusOK) })
	if got := get("/api/v1/secrets"); got != http.StatusForbidden {
		t.Errorf("secrets: %d", got)
	}
	issue() // renews the token
	harness.Eventually(t, "the new token works", func() error { return isStatus(get("/metrics"), http.StatusOK) })
	harness.Runs(t, harness.ExitUsage, "kubeconfig", "scrape")
	harness.Runs(t, harness.ExitUsage, "kubeconfig", "scrape", dir, "--service-account", "x")
}

// isStatus returns an error for another status code.
func isStatus(got, want int) error {
	if got != want {
		return fmt.Errorf("the answer is %d, want %d", got, want)
	}
	return nil
}
