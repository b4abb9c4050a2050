package console

import (
	"fmt"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// platform is a server with a claim of Crossplane's, its composite resource and
// managed resources of Crossplane's provider for Kubernetes, linked as Crossplane links
// them: a claim and a composite resource name each other in their specs, because a
// namespaced object cannot own one of the cluster; managed resources are owned.
func platform(t *testing.T) *harness.Server {
	t.Helper()
	s := harness.Start(t)
	installCrossplane(t, s)
	s.Kubectl("", "create", "namespace", "shop")
	create := func(text string) { t.Helper(); s.Kubectl(text, "create", "-f", "-") }
	uid := func(args ...string) string {
		t.Helper()
		return s.Kubectl("", append([]string{"get", "-o", "jsonpath={.metadata.uid}"}, args...)...)
	}
	create(`
apiVersion: platform.example.org/v1alpha1
kind: PostgreSQL
metadata: {name: orders, namespace: shop}
spec: {size: small, resourceRef: {apiVersion: platform.example.org/v1alpha1, kind: XPostgreSQL, name: orders-x7k2p}}
---
apiVersion: platform.example.org/v1alpha1
kind: XPostgreSQL
metadata:
  name: orders-x7k2p
  labels: {crossplane.io/claim-name: orders, crossplane.io/claim-namespace: shop}
spec:
  size: small
  compositionRef: {name: aws}
  claimRef: {apiVersion: platform.example.org/v1alpha1, kind: PostgreSQL, namespace: shop, name: orders}
  resourceRefs:
  - {apiVersion: kubernetes.crossplane.io/v1alpha2, kind: Object, name: orders-x7k2p-db}
  - {apiVersion: kubernetes.crossplane.io/v1alpha2, kind: Object, name: orders-x7k2p-net}
  - {apiVersion: kubernetes.crossplane.io/v1alpha2, kind: Object, name: not-yet-there}
  - {apiVersion: kubernetes.crossplane.io/v1alpha2, kind: Object}
`)
	composite := uid("xpostgresql", "orders-x7k2p")
	for _, name := range []string{"orders-x7k2p-db", "orders-x7k2p-net"} {
		create(fmt.Sprintf(`
apiVersion: kubernetes.crossplane.io/v1alpha2
kind: Object
metadata:
  name: %s
  ownerReferences: [{apiVersion: platform.example.org/v1alpha1, kind: XPostgreSQL, name: orders-x7k2p, uid: %s, controller: true, blockOwnerDeletion: true}]
spec: {forProvider: {manifest: {apiVersion: apps/v1, kind: StatefulSet, metadata: {name: %s, namespace: databases}}}}
`, name, composite, name))
	}
	create("apiVersion: platform.example.org/v1\nkind: XNetwork\nmetadata: {name: net, namespace: shop}\nspec: {crossplane: {resourceRefs: [{apiVersion: v1, kind: ConfigMap, name: routes}]}}\n")
	create(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: routes
  namespace: shop
  ownerReferences: [{apiVersion: platform.example.org/v1, kind: XNetwork, name: net, uid: ` + uid("xnetwork", "net", "-n", "shop") + `, controller: true}]
`)
	status := func(ready, reason string, args ...string) {
		t.Helper()
		s.Kubectl("", append([]string{"patch", "--subresource=status", "--type=merge", "-p", `{"status":{"conditions":[{"type":"Synced","status":"True","reason":"ReconcileSuccess","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Ready","status":"` + ready + `","reason":"` + reason + `","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`}, args...)...)
	}
	status("False", "Waiting", "postgresql", "orders", "-n", "shop")
	status("False", "Creating", "xpostgresql", "orders-x7k2p")
	status("False", "Creating", "objects.kubernetes.crossplane.io", "orders-x7k2p-db")
	status("True", "Available", "objects.kubernetes.crossplane.io", "orders-x7k2p-net")
	return s
}

// TestCrossplaneTree: from the claim, the composite and a managed resource, the
// same tree is seen, with what exists no longer or not yet; the dialog of a
// deletion tells what the garbage collector deletes from what Crossplane does.
func TestCrossplaneTree(t *testing.T) {
	t.Parallel()
	s := platform(t)
	p := open(t, launch(t, "--data-dir", s.Dir), "#/object/platform.example.org/v1alpha1/postgresqls/shop/orders?tab=tree")
	whole := []string{"PostgreSQL", "XPostgreSQL", "orders-x7k2p", "Object", "orders-x7k2p-db", "orders-x7k2p-net", "not-yet-there", "missing", "Waiting", "Creating", "ready"}
	p.sees(whole...)
	selected := func(name string) {
		t.Helper()
		p.await(name+" is marked", func() error {
			if got := evaluate[string](p, `document.querySelector(".tree .self")?.textContent ?? ""`); got != name {
				return fmt.Errorf("%q is", got)
			}
			return nil
		})
	}
	selected("PostgreSQL shop/orders: WaitingPostgreSQLWaitingorders")
	p.visit("#/object/kubernetes.crossplane.io/v1alpha2/objects/-/orders-x7k2p-db?tab=tree")
	selected("Object orders-x7k2p-db: CreatingObjectCreatingorders-x7k2p-db")
	p.sees(whole...)
	p.visit("#/object/platform.example.org/v1alpha1/xpostgresqls/-/orders-x7k2p?tab=tree")
	p.sees(whole...)
	if edges := evaluate[int](p, `document.querySelectorAll(".tree .edge.referred").length`); edges != 2 { // claim to composite, and to what is missing
		t.Errorf("%d references are drawn, want 2", edges)
	}

	// What goes with the claim is for Crossplane to delete, with the composite
	// for the garbage collector.
	p.click("Delete")
	p.sees("These go too:", "Object orders-x7k2p-db", "Object orders-x7k2p-net")
	p.click("Orphan: the object only; dependents stay without an owner")
	p.sees("These stay, without this owner:")
	p.click("Cancel")
	p.visit("#/object/platform.example.org/v1alpha1/postgresqls/shop/orders")
	p.click("Delete")
	p.sees("Its controller deletes them", "XPostgreSQL orders-x7k2p", "Object orders-x7k2p-db")
	p.lacks("These go too:")
	p.click("Cancel")

	// Composite resources of Crossplane 2 are in a namespace.
	p.visit("#/object/core/v1/configmaps/shop/routes?tab=tree")
	p.sees("XNetwork", "routes")
}
