package e2e

import (
	"fmt"
	"testing"

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
