package e2e

import "testing"

// TestServerSideApply: fields of a built-in type have managers, who conflict. Of custom
// resources, conformance-fast shows it.
func TestServerSideApply(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns := namespace(t, s)
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n"
	const before, after = object + "data: {size: small}", object + "data: {size: large}"
	apply := func(manager string, more ...string) []string {
		return append([]string{"apply", "-n", ns, "--server-side", "--field-manager", manager, "-f", "-"}, more...)
	}
	s.Kubectl(before, apply("alice")...)
	s.Kubectl(before, apply("bob")...) // the same value is no conflict
	refused(t, s, after, apply("bob"), "conflict", `"alice"`, ".data.size")
	s.Kubectl(after, apply("bob", "--force-conflicts")...)
	got := s.Kubectl("", "get", "configmap", "shared", "-n", ns, "--show-managed-fields", "-o", "jsonpath={.data.size} {.metadata.managedFields[*].manager}")
	if got != "large bob" {
		t.Errorf("value and managers are %q, want that bob has taken over: large bob", got)
	}
	// bob is the only owner of the field: leaving it out removes it.
	s.Kubectl(object, apply("bob")...)
	if got := s.Kubectl("", "get", "configmap", "shared", "-n", ns, "-o", "jsonpath={.data.size}"); got != "" {
		t.Errorf("the field is %q after its only owner has let go of it", got)
	}
}
