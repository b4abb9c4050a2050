package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// userOf returns a kubeconfig for that server with the content of its user.
func userOf(server, user string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Config\nclusters: [{name: mini, cluster: {server: %q, insecure-skip-tls-verify: true}}]\nusers: [{name: jane, user: %s}]\n"+
		"contexts: [{name: mini, context: {cluster: mini, user: jane}}]\ncurrent-context: mini\n", server, user)
}

// TestRefusedToken: a server that refuses a token is the only finding.
func TestRefusedToken(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
	}))
	defer server.Close()
	report := &Report{}
	if err := Server(t.Context(), report, userOf(server.URL, "{token: x}"), nil); err != nil {
		t.Fatal(err)
	}
	if len(report.Findings) != 1 || report.Findings[0].Check != "credentials" || !strings.Contains(report.Findings[0].Problem, "refuses the credentials") {
		t.Errorf("findings: %+v", report.Findings)
	}
}

// TestForbidden: the report says why a check was not made.
func TestForbidden(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"jane cannot read %s"}`, r.URL.Path)
	}))
	defer server.Close()
	report := &Report{}
	if err := Server(t.Context(), report, userOf(server.URL, "{token: x}"), nil); err != nil {
		t.Fatal(err)
	}
	if len(report.Skipped) < 2 {
		t.Errorf("skipped: %+v", report.Skipped)
	}
	for _, skipped := range report.Skipped {
		if !strings.Contains(skipped.Reason, "jane cannot read /") {
			t.Errorf("%s: %s", skipped.Check, skipped.Reason)
		}
	}
}

// TestUnusableKubeconfig: a file that is no kubeconfig, or has no current context, is a
// finding with a remedy.
func TestUnusableKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jane.kubeconfig")
	for content, usable := range map[string]bool{
		"{": false, "- a list\n": false, "": false, strings.Replace(string(userOf("https://a", "{}")), "current-context: mini", "current-context: other", 1): false,
		string(userOf("https://a", "{}")): true,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		report := &Report{}
		got := Kubeconfig(report, path, []byte(content))
		if got != usable || (len(report.Findings) == 0) != usable {
			t.Errorf("%q: usable is %v, findings %+v", content, got, report.Findings)
		}
		for _, f := range report.Findings {
			if f.Object != path || !strings.Contains(f.Remedy, "kubeconfig create") {
				t.Errorf("%q: %+v", content, f)
			}
		}
	}
}
