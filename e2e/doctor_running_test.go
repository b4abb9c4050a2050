package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

const dangling = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: dangling}
webhooks:
- name: a.example.com
  clientConfig: {service: {namespace: nowhere, name: hook}}
  rules: [{apiGroups: [nowhere.example.com], apiVersions: [v1], operations: [CREATE], resources: [things]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`

const deadTarget = `apiVersion: kube-hyper-mini.io/v1alpha1
kind: ServiceEndpoint
metadata: {namespace: default, name: dead}
spec: {targets: ["https://127.0.0.1:1"]}
`

// TestDoctorOnRunningServer: each finding about objects comes with a remedy that helps.
func TestDoctorOnRunningServer(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	healthy := func() {
		t.Helper()
		harness.Eventually(t, "nothing is found", func() error {
			if findings := examine(t, "--data-dir", s.Dir); len(findings) > 0 {
				return fmt.Errorf("findings: %+v", findings)
			}
			return nil
		})
	}
	// await returns the finding when it is the only one: controllers write what it is
	// about, and a server on a busy machine may answer late.
	await := func(check, object string) finding {
		t.Helper()
		var findings []finding
		harness.Eventually(t, check+" of "+object+" is found", func() error {
			if findings = examine(t, "--data-dir", s.Dir); len(findings) != 1 || !findings[0].is(check, object) {
				return fmt.Errorf("findings: %+v", findings)
			}
			return nil
		})
		return findings[0]
	}
	healthy()

	s.Kubectl(dangling, "apply", "-f", "-")
	harness.Contains(t, await("references", "dangling").Remedy, "kind: ServiceEndpoint", "namespace: nowhere, name: hook")
	s.Kubectl("", "delete", "validatingwebhookconfiguration", "dangling")
	healthy()

	s.Kubectl(deadTarget, "apply", "-f", "-")
	harness.Contains(t, await("references", "ServiceEndpoint default/dead").Problem, "127.0.0.1:1")
	s.Kubectl("", "delete", "serviceendpoint", "dead")
	healthy()

	kubeconfigFindings(t, s)
}

// kubeconfigFindings checks a kubeconfig alone, of a running server and of a stopped one.
func kubeconfigFindings(t *testing.T, s *harness.Server) {
	t.Helper()
	data := harness.ReadFile(t, s.Kubeconfig)
	copied := filepath.Join(t.TempDir(), "admin.kubeconfig")
	harness.WriteFile(t, copied, string(data))
	if findings := examine(t, "--kubeconfig", copied); len(findings) > 0 {
		t.Errorf("a good kubeconfig: %+v", findings)
	}
	if err := os.Chmod(copied, 0o644); err != nil {
		t.Fatal(err)
	}
	only(t, examine(t, "--kubeconfig", copied), "kubeconfig", "0644").remedy(t, copied)
	replaceAdmin(t, filepath.Dir(copied), readAuthority(t, s.Dir, "client-ca").issue(t, "admin", -2*time.Hour, -time.Hour))
	harness.Contains(t, only(t, examine(t, "--kubeconfig", copied), "kubeconfig", "expired at").Remedy, "kubeconfig create")
	harness.WriteFile(t, copied, string(data))
	s.Stop()
	only(t, examine(t, "--kubeconfig", copied), "server", "does not answer")
	if findings := examine(t, "--data-dir", s.Dir); len(findings) > 0 {
		t.Errorf("a stopped server: %+v", findings)
	}
}

// TestDoctorText: what is printed for people.
func TestDoctorText(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "doctor", "--data-dir", s.Dir), "nothing was found", "checked: access, modes", "not checked: database (the server runs")
	chmod("pki/client-ca.key", 0o604)(t, s.Dir)
	out := harness.Runs(t, harness.ExitFindings, "doctor", "--data-dir", s.Dir)
	harness.Contains(t, out, "RISK  modes: ", "0604", "remedy: ", "    chmod 0600 ", "error: 1 finding")
	if yaml := harness.Runs(t, harness.ExitFindings, "doctor", "--data-dir", s.Dir, "-o", "yaml"); !strings.Contains(yaml, "\n- check: modes\n") {
		t.Errorf("YAML:\n%s", yaml)
	}
}
