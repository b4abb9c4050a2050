package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestStorageVersionMigration: after a CRD has changed its storage version,
// a migration rewrites what is stored, and the old version can be dropped.
func TestStorageVersionMigration(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k := namespace(t, s), newKind()
	define(t, s, k, richDefinition(k))
	for i := range 5 {
		s.Kubectl(k.object(fmt.Sprint("w", i), "spec: {size: small}"), "create", "-n", ns, "-f", "-")
	}
	versions := func() string {
		return s.Kubectl("", "get", "crd", k.crd(), "-o", "jsonpath={.status.storedVersions[*]} {.metadata.resourceVersion}")
	}
	s.Kubectl("", "patch", "crd", k.crd(), "--type=json", "-p",
		`[{"op":"replace","path":"/spec/versions/0/storage","value":false},{"op":"replace","path":"/spec/versions/1/storage","value":true}]`)
	harness.Contains(t, versions(), "v1 v1beta1")
	drop := []string{"patch", "crd", k.crd(), "--type=json", "-p", `[{"op":"remove","path":"/spec/versions/0"}]`}
	refused(t, s, "", drop, "status.storedVersions[0]", "v1")

	name := unique("migrate")
	s.Kubectl(fmt.Sprintf(`apiVersion: storagemigration.k8s.io/v1beta1
kind: StorageVersionMigration
metadata: {name: %s}
spec: {resource: {group: %s, resource: %s}}
`, name, k.group, k.plural), "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl("", "delete", "storageversionmigration", name) })
	migrated(t, s, name)
	harness.Eventually(t, "the CRD stores one version only", func() error {
		if got := s.Kubectl("", "get", "crd", k.crd(), "-o", "jsonpath={.status.storedVersions}"); got != `["v1beta1"]` {
			return fmt.Errorf("storedVersions: %s", got)
		}
		return nil
	})
	s.Kubectl("", drop...)
	got := s.Kubectl("", "get", k.crd(), "w4", "-n", ns, "-o", "jsonpath={.apiVersion} {.spec.size}")
	if want := k.group + "/v1beta1 small"; got != want {
		t.Errorf("after the old version was dropped the object reads %q, want %q", got, want)
	}
}

// TestAPIServices: one whose server does not answer is unavailable and nothing else is.
func TestAPIServices(t *testing.T) {
	t.Parallel()
	s := harness.Start(t) // an unavailable API holds every namespace's deletion
	k := newKind()
	define(t, s, k, k.definition("Namespaced"))
	s.Kubectl(`apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.absent.example.com}
spec:
  group: absent.example.com
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 10
  insecureSkipTLSVerify: true
  service: {namespace: default, name: absent}
`, "create", "-f", "-")
	harness.Eventually(t, "the absent server's API is unavailable", func() error {
		out, err := s.TryKubectl("", "get", "--raw", "/apis/absent.example.com/v1")
		if err == nil || !strings.Contains(out, "ServiceUnavailable") {
			return fmt.Errorf("the answer is %s", out)
		}
		return nil
	})
	s.Kubectl(k.object("mine", ""), "create", "-f", "-")
	s.Kubectl("", "delete", k.crd(), "mine")

	// Upstream holds the deletion of namespaces: the absent API may have
	// objects in them.
	namespaces := s.Client().CoreV1().Namespaces()
	ns := namespace(t, s)
	if err := namespaces.Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the namespace says what holds it", func() error {
		held, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the namespace went without asking the absent API: %v", err)
		}
		return holds(held, map[corev1.NamespaceConditionType]string{corev1.NamespaceDeletionDiscoveryFailure: "absent.example.com/v1"})
	})
	s.Kubectl("", "delete", "apiservice", "v1.absent.example.com")
	gone(t, "the namespace", func() error {
		_, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{})
		return err
	})
}
