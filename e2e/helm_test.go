package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// chart is helm with a release of testdata/chart in namespace team.
type chart struct {
	t      *testing.T
	s      *harness.Server
	binary string
}

// try runs helm as the administrator.
func (c chart) try(args ...string) (string, error) {
	c.t.Helper()
	return harness.Run(c.t, "", c.binary, append(args, "--kubeconfig", c.s.Kubeconfig, "--namespace", "team")...)
}

func (c chart) run(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// release is the only release of helm list.
func (c chart) release() (revision, status string) {
	c.t.Helper()
	var list []struct{ Name, Revision, Status string }
	out := c.run("list", "--all", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		c.t.Fatalf("helm list: %v\n%s", err, out)
	}
	if len(list) != 1 || list[0].Name != "r" {
		c.t.Fatalf("helm lists %v", list)
	}
	return list[0].Revision, list[0].Status
}

// holds returns what the chart has created: the gadget's size, the greeting,
// and the last revision for which the hook ran.
func (c chart) holds(size, greeting, hook string) {
	c.t.Helper()
	get := func(kind, name, path string) string {
		return c.s.Kubectl("", "get", kind, name, "-n", "team", "-o", "jsonpath="+path)
	}
	if got := get("gadget", "r", "{.spec.size}"); got != size {
		c.t.Errorf("the gadget has size %q, want %q", got, size)
	}
	if got := get("configmap", "r", "{.data.greeting}"); got != greeting {
		c.t.Errorf("the greeting is %q, want %q", got, greeting)
	}
	if got := get("configmap", "r-hook", "{.data.revision}"); got != hook {
		c.t.Errorf("the hook ran for revision %q, want %q", got, hook)
	}
}

func (c chart) password() string {
	c.t.Helper()
	return c.s.Kubectl("", "get", "secret", "r", "-n", "team", "-o", "jsonpath={.data.password}")
}

// helmBinary builds helm and returns its path.
func helmBinary(t *testing.T) string {
	t.Helper()
	return harness.Build(t, filepath.Join(harness.Root(t), "e2e", "helm"), "helm.sh/helm/v3/cmd/helm", "helm")
}

// TestHelm: the life of a release, from install to uninstall, with an upgrade
// that the server refuses on the way.
func TestHelm(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(harness.Root(t), "e2e", "testdata", "chart")
	s := harness.Start(t)
	helm := chart{t, s, helmBinary(t)}

	harness.Contains(t, helm.run("install", "r", dir, "--create-namespace", "--wait", "--timeout", "2m"), "STATUS: deployed", "kubectl get gadgets -n team")
	helm.holds("3", "hello", "1")
	harness.Contains(t, s.Kubectl("", "get", "configmap", "r", "-n", "team", "-o", "jsonpath={.data.kubernetes} {.data.policies}"), harness.KubernetesVersion(t)+" true")
	eventuallyCan(t, s, "system:serviceaccount:team:r", "team", "update", "gadgets.chart.example.com")
	password := helm.password()
	if password == "" {
		t.Error("the secret has no password")
	}

	harness.Contains(t, helm.run("upgrade", "r", dir, "--set", "size=5,greeting=ahoy", "--dry-run=server"), "size: 5", "greeting: \"ahoy\"")
	helm.holds("3", "hello", "1")
	helm.run("upgrade", "r", dir, "--set", "size=5,greeting=ahoy", "--wait")
	helm.holds("5", "ahoy", "2")
	if again := helm.password(); again != password {
		t.Errorf("helm did not find the secret that is there: the password was %q and is %q", password, again)
	}
	if out, err := helm.try("upgrade", "r", dir, "--set", "size=11"); err == nil {
		t.Errorf("the CRD's maximum does not count:\n%s", out)
	} else {
		harness.Contains(t, out, "should be less than or equal to 10")
	}
	if revision, status := helm.release(); revision != "3" || status != "failed" {
		t.Errorf("after a refused upgrade: revision %s, %s", revision, status)
	}

	helm.run("rollback", "r", "1", "--wait")
	helm.holds("3", "hello", "1")
	if revision, status := helm.release(); revision != "4" || status != "deployed" {
		t.Errorf("after the rollback: revision %s, %s", revision, status)
	}
	harness.Contains(t, helm.run("history", "r"), "superseded", "failed", "Rollback to 1")
	harness.Contains(t, helm.run("get", "manifest", "r"), "kind: Gadget")
	harness.Contains(t, helm.run("status", "r"), "STATUS: deployed")

	helm.run("uninstall", "r", "--wait")
	for _, what := range []string{"configmap", "secret", "gadget", "serviceaccount", "role", "rolebinding"} {
		if out, err := s.TryKubectl("", "get", what, "r", "-n", "team"); err == nil || !strings.Contains(out, "NotFound") {
			t.Errorf("after the end of the release its %s: %s", what, out)
		}
	}
	if out := helm.run("list", "--all", "-q"); out != "" {
		t.Errorf("helm still lists %s", out)
	}
	// helm never deletes CRDs, because that would delete their objects.
	if _, err := s.Dynamic().Resource(crdResource).Get(t.Context(), "gadgets.chart.example.com", metav1.GetOptions{}); err != nil {
		t.Errorf("the CRD: %v", err)
	}
	_, err := s.Client().RbacV1().ClusterRoles().Get(t.Context(), "r-gadgets-viewer", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the cluster role: %v", err)
	}
	if lines := harness.Problems(s.Log()); lines != "" {
		t.Errorf("the server complains:\n%s", lines)
	}
}
