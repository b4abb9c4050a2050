package e2e

import (
	"fmt"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// richDefinition has what operators use: a schema with defaults and rules,
// two versions, subresources and columns.
func richDefinition(k kind) string {
	const schema = `
    schema:
      openAPIV3Schema:
        type: object
        description: A widget for tests.
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations:
            - {rule: "self.replicas <= self.max", message: "more replicas than max"}
            properties:
              size: {type: string, enum: [small, large], description: How big it is.}
              replicas: {type: integer, minimum: 0, default: 1}
              max: {type: integer, default: 5}
              zone:
                type: string
                x-kubernetes-validations:
                - {rule: "self == oldSelf", message: "zone is immutable"}
              when: {type: string, format: date-time}
          status:
            type: object
            properties:
              phase: {type: string}
              replicas: {type: integer}
              selector: {type: string}
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Phase, type: string, jsonPath: .status.phase}
`
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: %s
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: %s, shortNames: [%s], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true%s
  - name: v1beta1
    served: true
    storage: false%s`, k.crd(), k.group, k.plural, k.singular, k.name, k.short(), schema, schema)
}

func TestCustomResourceDefinition(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k := namespace(t, s), newKind()
	define(t, s, k, richDefinition(k))
	apply := []string{"apply", "-n", ns, "-f", "-"}
	field := func(t *testing.T, name, path string) string {
		return s.For(t).Kubectl("", "get", k.crd(), name, "-n", ns, "-o", "jsonpath={"+path+"}")
	}
	s.Kubectl(k.object("a", "spec: {size: small, zone: north}"), apply...)

	t.Run("defaults", func(t *testing.T) {
		if got := field(t, "a", ".spec.replicas") + "/" + field(t, "a", ".spec.max"); got != "1/5" {
			t.Errorf("replicas/max are %q, want the defaults 1/5", got)
		}
	})
	t.Run("schema", func(t *testing.T) {
		s := s.For(t)
		refused(t, s, k.object("b", "spec: {size: huge}"), apply, "spec.size: Unsupported value", `"small"`, `"large"`)
		refused(t, s, k.object("b", "spec: {}"), apply, "spec.size: Required value")
		refused(t, s, k.object("b", "spec: {size: small, replicas: many}"), apply, "spec.replicas", "must be of type integer")
		refused(t, s, k.object("b", "spec: {size: small, replicas: -1}"), apply, "should be greater than or equal to 0")
		refused(t, s, k.object("b", "spec: {size: small, colour: red}"), apply, `unknown field "spec.colour"`)
		refused(t, s, k.object("b", "spec: {size: small, when: tomorrow}"), apply, "spec.when", "date-time")
	})
	t.Run("rules", func(t *testing.T) {
		s := s.For(t)
		refused(t, s, k.object("b", "spec: {size: small, replicas: 6}"), apply, "more replicas than max")
		refused(t, s, k.object("a", "spec: {size: small, zone: south}"), apply, "zone is immutable")
	})
	t.Run("status", func(t *testing.T) {
		s := s.For(t)
		before := field(t, "a", ".metadata.generation")
		s.Kubectl("", "patch", k.crd(), "a", "-n", ns, "--subresource=status", "--type=merge",
			"-p", `{"status":{"phase":"Ready","replicas":1,"selector":"app=a"},"spec":{"size":"large"}}`)
		if got := field(t, "a", ".status.phase") + "/" + field(t, "a", ".spec.size"); got != "Ready/small" {
			t.Errorf("phase/size are %q after a write to status, want Ready/small", got)
		}
		if after := field(t, "a", ".metadata.generation"); after != before {
			t.Errorf("a write to status changed the generation from %s to %s", before, after)
		}
		s.Kubectl("", "patch", k.crd(), "a", "-n", ns, "--type=merge", "-p", `{"status":{"phase":"Lost"},"spec":{"size":"large"}}`)
		if got := field(t, "a", ".status.phase") + "/" + field(t, "a", ".spec.size"); got != "Ready/large" {
			t.Errorf("phase/size are %q after a write to spec, want Ready/large", got)
		}
		harness.Contains(t, s.Kubectl("", "get", k.short(), "-n", ns), "SIZE", "PHASE", "large", "Ready")
	})
	t.Run("scale", func(t *testing.T) {
		s := s.For(t)
		s.Kubectl("", "scale", k.crd()+"/a", "-n", ns, "--replicas=4")
		if got := field(t, "a", ".spec.replicas"); got != "4" {
			t.Errorf("scaled to %s replicas, want 4", got)
		}
		harness.Contains(t, s.Kubectl("", "get", k.crd(), "a", "-n", ns, "--subresource=scale", "-o", "yaml"), "kind: Scale", "selector: app=a")
		refused(t, s, "", []string{"scale", k.crd() + "/a", "-n", ns, "--replicas=9"}, "more replicas than max")
	})
	t.Run("versions", func(t *testing.T) {
		s := s.For(t)
		old := fmt.Sprintf("apiVersion: %s/v1beta1\nkind: %s\nmetadata: {name: old}\nspec: {size: large}\n", k.group, k.name)
		s.Kubectl(old, apply...)
		for _, version := range []string{"v1", "v1beta1"} {
			got := s.Kubectl("", "get", fmt.Sprintf("%s.%s.%s", k.plural, version, k.group), "old", "-n", ns, "-o", "jsonpath={.apiVersion}/{.spec.size}")
			if want := k.group + "/" + version + "/large"; got != want {
				t.Errorf("read %q in %s, want %q", got, version, want)
			}
		}
	})
	t.Run("explain", func(t *testing.T) {
		s := s.For(t)
		harness.Contains(t, s.Kubectl("", "explain", k.plural+".spec.size", "--api-version", k.group+"/v1"), "How big it is.", "ENUM")
	})
}
