package doctor

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

// TestIssuers: what keeps the server from fetching the keys of an issuer is found.
func TestIssuers(t *testing.T) {
	name, keys := "", http.StatusOK
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, name, server.URL+"/keys")
	})
	mux.HandleFunc("/text/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(keys); fmt.Fprint(w, `{"keys": []}`) })
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	discovery := server.URL + "/.well-known/openid-configuration"
	for _, c := range []struct {
		name            string
		issuer          apiserverv1.Issuer
		calls           string // the issuer's name for itself
		keys            int
		problem, remedy string
	}{
		{"reachable", apiserverv1.Issuer{URL: server.URL, CertificateAuthority: ca}, server.URL, 200, "", ""},
		{"elsewhere", apiserverv1.Issuer{URL: "https://issuer.example.org", DiscoveryURL: &discovery, CertificateAuthority: ca}, "https://issuer.example.org", 200, "", ""},
		{"unknown authority", apiserverv1.Issuer{URL: server.URL}, server.URL, 200, "certificate", "certificateAuthority"},
		{"no authority", apiserverv1.Issuer{URL: server.URL, CertificateAuthority: "x"}, server.URL, 200, "no certificate in PEM", "authentication configuration"},
		{"another name", apiserverv1.Issuer{URL: server.URL, CertificateAuthority: ca}, "https://dex.example.org", 200, `"https://dex.example.org"`, "claim iss"},
		{"no keys", apiserverv1.Issuer{URL: server.URL, CertificateAuthority: ca}, server.URL, 404, "/keys answers 404", "start the issuer"},
		{"no issuer", apiserverv1.Issuer{URL: server.URL + "/nothing", CertificateAuthority: ca}, server.URL, 200, "404", "correct its url"},
		{"a page", apiserverv1.Issuer{URL: server.URL + "/text", CertificateAuthority: ca}, server.URL, 200, "read https://", "correct its url"},
		{"nothing listens", apiserverv1.Issuer{URL: "https://127.0.0.1:1"}, "", 200, "127.0.0.1:1", "start the issuer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, keys = c.calls, c.keys
			f := found(t, func(add func(Finding)) error {
				return unreachableIssuers(t.Context(), []apiserverv1.Issuer{c.issuer}, add)
			})
			if (f == nil) != (c.problem == "") {
				t.Fatalf("finding: %+v", f)
			}
			if f != nil && (!strings.Contains(f.Problem, c.problem) || !strings.Contains(f.Remedy, c.remedy)) {
				t.Errorf("finding: %+v, want %q, %q", f, c.problem, c.remedy)
			}
		})
	}
}

// TestHostileIssuer: what a finding has of an issuer's texts is quoted and short.
func TestHostileIssuer(t *testing.T) {
	long, document := strings.Repeat("x", 100_000), ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if document != "" {
			fmt.Fprint(w, document)
			return
		}
		connection, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(connection, "HTTP/1.1 500 \x1b[31mrun this "+long+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_ = connection.Close()
	}))
	defer server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for _, document = range []string{
		"", `{"issuer": "` + long + `"}`, `{"issuer": "a\n  remedy: run this"}`,
		`{"issuer": "` + server.URL + `", "jwks_uri": "https://127.0.0.1:1/` + long + `"}`, `{"issuer": "` + server.URL + `", "jwks_uri": "a\nb"}`,
	} {
		f := found(t, func(add func(Finding)) error {
			return unreachableIssuers(t.Context(), []apiserverv1.Issuer{{URL: server.URL, CertificateAuthority: ca}}, add)
		})
		if f == nil || len(f.Problem) > 2*maxProblem || strings.ContainsAny(f.Problem, "\x1b\n") {
			t.Errorf("%.50q: %.2000q", document, f)
		}
	}
}

// TestConfiguredIssuers: issuers are read from the file and from the flags.
func TestConfiguredIssuers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	content := `apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: https://one.example.org, audiences: [mini]}
- issuer: {url: https://two.example.org, audiences: [mini], discoveryURL: https://three.example.org/x}
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := &Config{}
	if list, err := cfg.issuers(); err != nil || len(list) != 0 {
		t.Errorf("without issuers: %+v, %v", list, err)
	}
	cfg.Authentication = file
	list, err := cfg.issuers()
	if err != nil || len(list) != 2 || list[1].URL != "https://two.example.org" || list[1].DiscoveryURL == nil {
		t.Errorf("of the file: %+v, %v", list, err)
	}
	cfg = &Config{OIDCIssuer: "https://flag.example.org", OIDCAuthority: file}
	if list, err = cfg.issuers(); err != nil || len(list) != 1 || list[0].URL != "https://flag.example.org" || list[0].CertificateAuthority != content {
		t.Errorf("of the flags: %+v, %v", list, err)
	}
	cfg.OIDCAuthority = file + ".missing"
	if _, err := cfg.issuers(); err == nil || !strings.Contains(err.Error(), "oidc-ca-file") {
		t.Errorf("a missing file: %v", err)
	}
}
