package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestScrapeIdentity: the commands of `help monitoring` make what Prometheus needs, and no
// more rights.
func TestScrapeIdentity(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	dir := filepath.Join(t.TempDir(), "scrape")
	name := unique("prometheus")
	s.Kubectl("", "create", "namespace", name)
	s.Kubectl("", "create", "serviceaccount", "prometheus", "-n", name)
	s.Kubectl("", "create", "clusterrole", name, "--verb=get", "--non-resource-url=/metrics")
	s.Kubectl("", "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+name+":prometheus")
	issue := func() {
		t.Helper()
		harness.Runs(t, harness.ExitOK, "kubeconfig", "create", "--service-account", name+"/prometheus", "--expires", "365d", "--in-cluster-env", dir, "--kubeconfig", s.Kubeconfig)
	}
	issue()
	read := func(name string) []byte {
		t.Helper()
		data := harness.ReadFile(t, filepath.Join(dir, name))
		return data
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read("ca.crt"))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	get := func(path string) int {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, s.RESTConfig().Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(read("token"))))
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
}

// isStatus returns an error for another status code.
func isStatus(got, want int) error {
	if got != want {
		return fmt.Errorf("the answer is %d, want %d", got, want)
	}
	return nil
}
