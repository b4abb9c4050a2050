package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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

// TestDoctorPrintsCommands: each command of this program in a remedy is one, with all its arguments.
func TestDoctorPrintsCommands(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"version.json": `{"format": 1, "version": "v1.0.0", "kubernetes": "v1.36.0", "etcd": "3.6.0"}`, "lock": "",
		"pki/server-ca.key": "", "pki/service-account.key": "", "pki/admin.key": "", "pki/apiserver.key": "", "encryption/config.yaml": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name), content)
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, errs, code := runCLI(t, "doctor", "--data-dir", dir)
	if code != ExitFindings {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	for _, want := range []string{"certs rotate server ", "certs rotate service-account ", "certs rotate NAME ", "certs revoke-admin ", "start the server, then kube-hyper-mini encryption rotate "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	for _, command := range regexp.MustCompile(`kube-hyper-mini ([^;,:()\n]+ --data-dir [^ ;,:()\n]+( FILE)?)`).FindAllStringSubmatch(out, -1) {
		found, args, err := newRoot(io.Discard).Find(strings.Fields(command[1]))
		if err == nil {
			err = found.ParseFlags(args)
		}
		if err == nil {
			err = found.ValidateArgs(found.Flags().Args())
		}
		if err != nil {
			t.Errorf("%q: %v", command[1], err)
		}
	}
}
