package apiserver

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// TestUntrustedIssuer: only the token of an issuer that is not trusted is explained.
func TestUntrustedIssuer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	if err := os.WriteFile(file, []byte("jwt:\n- issuer: {url: https://trusted.example.org}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	authentication := &options.BuiltInAuthenticationOptions{
		ServiceAccounts: &options.ServiceAccountAuthenticationOptions{Issuers: []string{"https://own.example.org"}},
		OIDC:            &options.OIDCAuthenticationOptions{IssuerURL: "https://flag.example.org"}, AuthenticationConfigFile: file,
	}
	token := func(claims string) string {
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
	}
	for header, want := range map[string]string{
		"":                      "",
		"Basic YTpi":            "",
		"Bearer abcdef.0123":    "",
		"Bearer a.%.c":          "",
		token("no JSON"):        "",
		token(`{"sub":"jane"}`): "",
		token(`{"iss":"https://own.example.org"}`):                     "",
		token(`{"iss":"https://flag.example.org"}`):                    "",
		token(`{"iss":"https://trusted.example.org"}`):                 "",
		token(`{"iss":"https://other.example.org"}`):                   `the issuer "https://other.example.org"; trusted are ["https://own.example.org" "https://flag.example.org" "https://trusted.example.org"]`,
		token(`{"iss":"two\nlines"}`):                                  `"two\nlines"`,
		"b" + token(`{"iss":"` + strings.Repeat("x", 1000) + `"}`)[1:]: strings.Repeat("x", 200) + `..."`,
	} {
		request := &http.Request{Header: http.Header{}} // as that of a TokenReview: nothing else
		request.Header.Set("Authorization", header)
		err := untrustedIssuer(request, func() ([]string, error) { return trustedIssuers(authentication) })
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", header, err, want)
		}
	}
	for name, content := range map[string]string{"missing": "", "invalid": "jwt: 5\n"} {
		authentication.AuthenticationConfigFile = filepath.Join(t.TempDir(), name)
		if content != "" {
			if err := os.WriteFile(authentication.AuthenticationConfigFile, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := trustedIssuers(authentication); err == nil || !strings.Contains(err.Error(), authentication.AuthenticationConfigFile) {
			t.Errorf("the file is %s: %v", name, err)
		}
	}
}
