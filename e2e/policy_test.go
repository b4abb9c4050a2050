package e2e

import (
	"fmt"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// policies applies manifests of cluster-scoped policies and removes them when
// the test ends.
func policies(t *testing.T, s *harness.Server, manifests string) {
	t.Helper()
	s.Kubectl(manifests, "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl(manifests, "delete", "-f", "-") })
}

// TestValidatingAdmissionPolicy: a rule with a parameter that is a custom resource, for one
// namespace.
func TestValidatingAdmissionPolicy(t *testing.T) {
	t.Parallel()
	s, k := shared.Server(t), newKind()
	define(t, s, k, k.definition("Namespaced"))
	testParameter(t, s, k.group+"/v1", k.name, k.object("limit", "spec: {max: 2}"), "params.spec.max", k.crd(), `{"spec":{"max":3}}`)
}

// TestPolicyWithAConfigMap: the same with a config map, whose data other informers drop.
func TestPolicyWithAConfigMap(t *testing.T) {
	t.Parallel()
	testParameter(t, shared.Server(t), "v1", "ConfigMap", "{apiVersion: v1, kind: ConfigMap, metadata: {name: limit}, data: {max: '2'}}",
		"int(params.data.max)", "configmaps", `{"data":{"max":"3"}}`)
}

// testParameter makes a policy with a parameter, whose expression is 2 before the patch and 3
// after it.
func testParameter(t *testing.T, s *harness.Server, version, kind, parameter, expression, resource, patch string) {
	t.Helper()
	ns, other, name := namespace(t, s), namespace(t, s), unique("policy")
	s.Kubectl(parameter, "create", "-n", ns, "-f", "-")
	policies(t, s, fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: %[2]s, kind: %[3]s}
  matchConstraints:
    # With a paramKind that is not known yet it refuses all that it matches.
    namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [%[4]s, %[5]s]}]}
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  validations:
  - expression: "!has(object.data) || size(object.data) <= %[6]s"
    messageExpression: "'at most ' + string(%[6]s) + ' keys'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  paramRef: {name: limit, namespace: %[4]s, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[4]s}}}
`, name, version, kind, ns, other, expression))
	three := []string{"create", "configmap", "three", "-n", ns, "--from-literal=a=1", "--from-literal=b=2", "--from-literal=c=3"}
	harness.Eventually(t, "the policy is in force", func() error {
		out, err := s.TryKubectl("", append(three, "--dry-run=server")...)
		if err == nil || !strings.Contains(out, "at most 2 keys") {
			return fmt.Errorf("the answer is: %s", out)
		}
		return nil
	})
	refused(t, s, "", three, "ValidatingAdmissionPolicy '"+name+"'", "denied request: at most 2 keys")
	s.Kubectl("", "create", "configmap", "two", "-n", ns, "--from-literal=a=1", "--from-literal=b=2")
	three[4] = other
	s.Kubectl("", three...)

	// The parameter decides.
	s.Kubectl("", "patch", resource, "limit", "-n", ns, "--type=merge", "-p", patch)
	three[4] = ns
	harness.Eventually(t, "the new parameter is in force", func() error {
		_, err := s.TryKubectl("", append(three, "--dry-run=server")...)
		return err
	})
}

func TestMutatingAdmissionPolicy(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k, name := namespace(t, s), newKind(), unique("policy")
	define(t, s, k, k.definition("Namespaced"))
	policies(t, s, fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", %[2]s], apiVersions: [v1], operations: [CREATE], resources: [configmaps, %[3]s]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"owner": request.userInfo.username}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[4]s}}}
`, name, k.group, k.plural, ns))
	harness.Eventually(t, "the policy is in force", func() error {
		out, err := s.TryKubectl("", "create", "configmap", "mine", "-n", ns, "--dry-run=server", "-o", "jsonpath={.metadata.labels.owner}")
		if err == nil && out != "admin" {
			err = fmt.Errorf("the label is %q", out)
		}
		return err
	})
	// The plugin learns of new kinds now and then, and answers 503 until it has.
	var got string
	harness.Eventually(t, "the policy knows the custom resource", func() (err error) {
		got, err = s.TryKubectl(k.object("mine", ""), "create", "-n", ns, "-f", "-", "-o", "jsonpath={.metadata.labels.owner}")
		return err
	})
	if got != "admin" {
		t.Errorf("a custom resource has got the label %q, want admin", got)
	}
	got = s.Kubectl("", "create", "configmap", "mine", "-n", namespace(t, s), "-o", "jsonpath={.metadata.labels}")
	if got != "" {
		t.Errorf("a config map elsewhere has got the labels %s", got)
	}
}

// TestPolicyDoesNotApplyToBootstrapWrites: a policy of users that matches what the server
// itself writes at its start applies to users only.
func TestPolicyDoesNotApplyToBootstrapWrites(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	s.Kubectl(`apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: mark}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [namespaces]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"marked": "yes"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: mark}
spec: {policyName: mark}
`, "create", "-f", "-")
	// The plugin learns the schema of a kind after the start, and answers 503
	// until it has.
	inForce := func() error {
		out, err := s.TryKubectl("", "annotate", "namespace", "default", "touched=yes", "--overwrite", "--dry-run=server", "-o", "jsonpath={.metadata.labels.marked}")
		if err == nil && out != "yes" {
			err = fmt.Errorf("the label is %q", out)
		}
		return err
	}
	harness.Eventually(t, "the policy is in force", inForce)
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	s = harness.StartIn(t, s.Dir)
	if got := s.Kubectl("", "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.labels.marked}"); got != "" {
		t.Errorf("the policy has changed a write of the server: the label is %q", got)
	}
	if err := inForce(); err != nil {
		t.Errorf("the policy is not in force for the first write after the start: %v", err)
	}
}
