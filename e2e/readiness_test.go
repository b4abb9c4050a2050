package e2e

import (
	"fmt"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestReadinessDespiteAdmission: what users' admission refuses does not keep the
// server unready: a policy that protects kube-system, and a webhook for
// everything whose server is down. Both hold for users.
func TestReadinessDespiteAdmission(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	s.Kubectl(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: protect}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: ["*"], operations: [UPDATE], resources: [namespaces]}]}
  validations: [{expression: "!object.metadata.name.startsWith('kube-')", message: it is protected}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: protect}
spec: {policyName: protect, validationActions: [Deny]}
`, "create", "-f", "-")
	harness.Eventually(t, "the policy is in force", func() error {
		if out, err := s.TryKubectl("", "label", "namespace", "kube-system", "a=b", "--dry-run=server"); err == nil {
			return fmt.Errorf("it allows: %s", out)
		}
		return nil
	})
	s.Kubectl("", "delete", "clusterrole", "system:heapster") // the next start makes it again
	s.Kubectl(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: away}
webhooks:
- name: away.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`, "create", "-f", "-")
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	s = harness.StartIn(t, dir)
	s.Kubectl("", "get", "clusterrole", "system:heapster")
	refused(t, s, "", []string{"create", "configmap", "c", "-n", "default"}, "failed calling webhook")
	refused(t, s, "", []string{"label", "namespace", "kube-system", "a=b", "--dry-run=server"}, "it is protected")
}
