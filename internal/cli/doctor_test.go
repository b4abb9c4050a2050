package cli

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorOfAContext: --context selects the server and the credentials, and paths in the
// file are relative to it.
func TestDoctorOfAContext(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"token": "opaque",
		"config": `apiVersion: v1
kind: Config
current-context: broken
clusters: [{name: a, cluster: {server: "` + down.URL + `"}}, {name: b, cluster: {server: "https://b.invalid:1", certificate-authority: none.crt}}]
users: [{name: a, user: {tokenFile: token}}, {name: b, user: {tokenFile: missing}}]
contexts: [{name: whole, context: {cluster: a, user: a}}, {name: broken, context: {cluster: b, user: b}}]
`,
	} {
		put(t, filepath.Join(dir, name), content)
	}
	file := filepath.Join(dir, "config")
	out, errs, code := runCLI(t, "doctor", "--kubeconfig", file)
	if code != ExitFindings || !strings.Contains(out, filepath.Join(dir, "none.crt")) || strings.Contains(out, down.URL) {
		t.Errorf("the current context: exit code %d:\n%s%s", code, out, errs)
	}
	out, errs, code = runCLI(t, "doctor", "--kubeconfig", file, "--context", "whole")
	if code != ExitFindings || !strings.Contains(out, down.URL) || strings.Contains(out, "none.crt") || strings.Contains(out, "missing") {
		t.Errorf("another context: exit code %d:\n%s%s", code, out, errs)
	}
	if _, errs, code := runCLI(t, "doctor", "--kubeconfig", file, "--context", "absent"); code != ExitUsage || !strings.Contains(errs, `no context "absent"; it has: broken, whole`) {
		t.Errorf("an absent context: exit code %d:\n%s", code, errs)
	}
}
