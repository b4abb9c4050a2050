package e2e

import (
	"strings"
	"testing"
)

func TestServerSideApply(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k := namespace(t, s), newKind()
	define(t, s, k, richDefinition(k))
	manifests := map[string]struct{ object, before, after, path string }{
		"ConfigMap": {
			object: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n",
			before: "data: {size: small}", after: "data: {size: large}", path: ".data.size",
		},
		"custom resource": {
			object: k.object("shared", ""),
			before: "spec: {size: small}", after: "spec: {size: large}", path: ".spec.size",
		},
	}
	for name, m := range manifests {
		t.Run(name, func(t *testing.T) {
			s := s.For(t)
			apply := func(manager string, more ...string) []string {
				return append([]string{"apply", "-n", ns, "--server-side", "--field-manager", manager, "-f", "-"}, more...)
			}
			s.Kubectl(m.object+m.before, apply("alice")...)
			// Two managers that apply the same value do not conflict.
			s.Kubectl(m.object+m.before, apply("bob")...)
			refused(t, s, m.object+m.after, apply("bob"), "conflict", `"alice"`, m.path)
			s.Kubectl(m.object+m.after, apply("bob", "--force-conflicts")...)
			resource, _, _ := strings.Cut(s.Kubectl(m.object, "get", "-n", ns, "-f", "-", "-o", "name"), "\n")
			got := s.Kubectl("", "get", resource, "-n", ns, "--show-managed-fields", "-o", "jsonpath={"+m.path+"} {.metadata.managedFields[*].manager}")
			if got != "large bob" {
				t.Errorf("value and managers are %q, want that bob has taken over: large bob", got)
			}
			// bob is the only owner of the field: leaving it out removes it.
			if name == "ConfigMap" {
				s.Kubectl(m.object, apply("bob")...)
				if got := s.Kubectl("", "get", resource, "-n", ns, "-o", "jsonpath={"+m.path+"}"); got != "" {
					t.Errorf("the field is %q after its only owner has let go of it", got)
				}
			}
		})
	}
}
