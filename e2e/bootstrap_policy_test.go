package e2e

import (
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestBootstrapPolicySurvivesRestarts: a start gives the bootstrap roles back
// what they lost, and takes away nothing that an administrator added.
func TestBootstrapPolicySurvivesRestarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := harness.StartIn(t, dir)
	patch := func(resource, operation string) {
		s.Kubectl("", "patch", resource, "--type=json", "-p", "["+operation+"]")
	}
	const extraRule = `{"op":"add","path":"/rules/-","value":{"apiGroups":["example.com"],"resources":["extras"],"verbs":["get"]}}`
	const extraSubject = `{"op":"add","path":"/subjects/-","value":{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"extra"}}`
	// Added to.
	patch("clusterrole/system:basic-user", extraRule)
	patch("clusterrolebinding/system:basic-user", extraSubject)
	s.Kubectl("", "create", "clusterrole", "mine", "--verb=get", "--resource=configmaps")
	// Taken from.
	patch("clusterrole/system:discovery", `{"op":"replace","path":"/rules","value":[]}`)
	patch("clusterrolebinding/system:discovery", `{"op":"replace","path":"/subjects","value":[]}`)
	s.Kubectl("", "patch", "role", "system::leader-locking-kube-scheduler", "-n", "kube-system", "--type=json", "-p", `[{"op":"replace","path":"/rules","value":[]}]`)
	s.Kubectl("", "delete", "clusterrole", "system:heapster", "system:monitoring")
	s.Kubectl("", "delete", "clusterrolebinding", "system:monitoring", "system:controller:generic-garbage-collector")
	// Without its rules, and excluded from reconciliation.
	s.Kubectl("", "annotate", "clusterrole", "system:public-info-viewer", "--overwrite", "rbac.authorization.kubernetes.io/autoupdate=false")
	patch("clusterrole/system:public-info-viewer", `{"op":"replace","path":"/rules","value":[]}`)
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}

	s = harness.StartIn(t, dir)
	get := func(path string, resource ...string) string {
		return s.Kubectl("", append([]string{"get", "-o", "jsonpath=" + path}, resource...)...)
	}
	harness.Contains(t, get("{.rules[*].resources}", "clusterrole", "system:basic-user"), "extras", "selfsubjectaccessreviews")
	harness.Contains(t, get("{.subjects[*].name}", "clusterrolebinding", "system:basic-user"), "extra", "system:authenticated")
	harness.Contains(t, get("{.rules[*].resources}", "clusterrole", "mine"), "configmaps")
	harness.Contains(t, get("{.rules[*].nonResourceURLs}", "clusterrole", "system:discovery"), "/openapi")
	harness.Contains(t, get("{.subjects[*].name}", "clusterrolebinding", "system:discovery"), "system:authenticated")
	harness.Contains(t, get("{.rules[*].resources}", "role", "-n", "kube-system", "system::leader-locking-kube-scheduler"), "leases")
	harness.Contains(t, get("{.items[*].metadata.name}", "clusterroles"), "system:heapster", "system:monitoring")
	harness.Contains(t, get("{.items[*].metadata.name}", "clusterrolebindings"), "system:monitoring", "system:controller:generic-garbage-collector")
	if got := get("{.rules}", "clusterrole", "system:public-info-viewer"); got != "null" && got != "[]" {
		t.Errorf("the protected role has got rules back: %s", got)
	}
	harness.Contains(t, s.Log(), "a bootstrap role is protected from reconciliation", "system:public-info-viewer")
}
