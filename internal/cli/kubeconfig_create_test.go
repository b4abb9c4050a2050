package cli

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// issuer is an API server that issues tokens, and counts them.
func issuer(t *testing.T) (server *httptest.Server, tokens *int) {
	t.Helper()
	tokens = new(int)
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			*tokens++
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","status":{"token":"t0ken",`+
			`"expirationTimestamp":"2099-01-01T00:00:00Z"}}`)
	}))
	t.Cleanup(server.Close)
	return server, tokens
}

// administrator writes a kubeconfig for the server, and returns its path.
func administrator(t *testing.T, path string, server *httptest.Server, url, tlsName string) string {
	t.Helper()
	cfg := api.NewConfig()
	cfg.Clusters["kube-hyper-mini"] = &api.Cluster{Server: url, TLSServerName: tlsName,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	cfg.Contexts["a"], cfg.CurrentContext = &api.Context{Cluster: "kube-hyper-mini"}, "a"
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCreateNamesTheServer: the new kubeconfig leads to where the credentials are from, the control plane.
func TestCreateNamesTheServer(t *testing.T) {
	server, tokens := issuer(t)
	dir := t.TempDir()
	host := administrator(t, filepath.Join(dir, "host"), server, server.URL, "")
	acme := administrator(t, filepath.Join(dir, "acme"), server, server.URL+"/clusters/acme", "")
	inCluster := filepath.Join(dir, "sa")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--kubeconfig", host, "--server", "https://mini:6443"}, ExitOK, "server: https://mini:6443\n"},
		{[]string{"--kubeconfig", host, "--plane", "acme"}, ExitOK, "server: " + server.URL + "/clusters/acme\n"},
		{[]string{"--kubeconfig", host, "--plane", "acme", "--server", "https://mini:6443/"}, ExitOK,
			"server: https://mini:6443/clusters/acme\n"},
		{[]string{"--kubeconfig", acme, "--server", "https://mini:6443"}, ExitOK, "server: https://mini:6443/clusters/acme\n"},
		{[]string{"--kubeconfig", host, "--plane", "acme", "--in-cluster-env", inCluster}, ExitUsage, "not for a control plane"},
		{[]string{"--kubeconfig", acme, "--in-cluster-env", inCluster}, ExitUsage, "not for a control plane"},
	} {
		*tokens = 0
		out, errs, code := runCLI(t, append([]string{"kubeconfig", "create", "--service-account", "team/robot"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) || (*tokens > 0) != (c.code == ExitOK) {
			t.Errorf("%v: exit code %d, %d tokens, want %d with %q:\n%s%s", c.args, code, *tokens, c.code, c.want, out, errs)
		}
	}
}

// TestCreateKeepsTheTLSName: clients of a host that the certificate lacks verify another name, as the
// administrator does.
func TestCreateKeepsTheTLSName(t *testing.T) {
	server, tokens := issuer(t) // its certificate is for 127.0.0.1 and example.com
	dir, dataDir := t.TempDir(), t.TempDir()
	mapped := administrator(t, filepath.Join(dir, "mapped"), server, strings.Replace(server.URL, "127.0.0.1", "localhost", 1),
		"example.com")
	administrator(t, filepath.Join(dataDir, "admin.kubeconfig"), server, server.URL, "")
	certificate := pki.New(filepath.Join(dataDir, "pki"), pki.Names{}).Cert(pki.APIServer)
	if err := os.Mkdir(filepath.Dir(certificate), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	inCluster := filepath.Join(dir, "sa")
	for _, c := range []struct {
		args []string
		code int
		name string
	}{
		{[]string{"--kubeconfig", mapped}, ExitOK, "example.com"},
		{[]string{"--kubeconfig", mapped, "--server", "https://other:6443"}, ExitOK, "example.com"},
		{[]string{"--data-dir", dataDir}, ExitOK, ""},
		{[]string{"--data-dir", dataDir, "--server", "https://build-host:32768"}, ExitOK, "example.com"},
		{[]string{"--data-dir", dataDir, "--server", "https://example.com:6443"}, ExitOK, ""},
		{[]string{"--kubeconfig", mapped, "--in-cluster-env", inCluster}, ExitUsage, ""},
		{[]string{"--data-dir", dataDir, "--server", "https://build-host:32768", "--in-cluster-env", inCluster}, ExitUsage, ""},
		{[]string{"--kubeconfig", mapped, "--server", server.URL, "--in-cluster-env", inCluster}, ExitOK, ""},
	} {
		*tokens = 0
		out, errs, code := runCLI(t, append([]string{"kubeconfig", "create", "--service-account", "team/robot"}, c.args...)...)
		if code != c.code || (*tokens > 0) != (code == ExitOK) ||
			strings.Contains(out, "tls-server-name: ") != (c.name != "") ||
			!strings.Contains(out, c.name) || code == ExitUsage && !strings.Contains(errs, "--tls-san HOST") {
			t.Errorf("%v: exit code %d, %d tokens, want %d with %q:\n%s%s", c.args, code, *tokens, c.code, c.name, out, errs)
		}
	}
}
