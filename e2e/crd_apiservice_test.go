package e2e

import (
	"fmt"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestAPIServicesOfDefinitions: each group version that CRDs serve has an
// APIService, which the server keeps as it should be.
func TestAPIServicesOfDefinitions(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	k := newKind()
	name := "v1." + k.group
	s.Kubectl(k.definition("Namespaced"), "create", "-f", "-")
	field := func(path string) string {
		return s.Kubectl("", "get", "apiservice", name, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
	}
	await := func(what, path string, holds func(value string) bool) {
		t.Helper()
		harness.Eventually(t, what, func() error {
			if value := field(path); !holds(value) {
				return fmt.Errorf("%s is %q", path, value)
			}
			return nil
		})
	}
	is := func(want string) func(string) bool { return func(value string) bool { return value == want } }
	await("the APIService is there", `.status.conditions[?(@.type=="Available")].status`, is("True"))
	uid := field(".metadata.uid")
	if label := field(`.metadata.labels.kube-aggregator\.kubernetes\.io/automanaged`); label != "true" {
		t.Errorf("the label is %q, want kube-apiserver's", label)
	}
	s.Kubectl("", "delete", "apiservice", name)
	isNew := func(value string) bool { return value != "" && value != uid }
	await("the APIService is made again", ".metadata.uid", isNew)
	uid = field(".metadata.uid")
	s.Kubectl("", "label", "apiservice", name, "kube-aggregator.kubernetes.io/automanaged-")
	s.Kubectl("", "delete", "apiservice", name)
	await("the APIService of a user is deleted and a managed one made", ".metadata.uid", isNew)
	s.Kubectl("", "patch", "apiservice", name, "--type=merge", "-p", `{"spec":{"versionPriority":7}}`)
	await("the APIService is corrected", ".spec.versionPriority", is("100"))
	s.Kubectl("", "delete", "crd", k.crd())
	await("the APIService is gone", ".metadata.name", is(""))
}

// TestGroupsOfDefinitions: the discovery of groups in its old form has what CRDs
// serve as soon as they are created, beside versions of other APIServices.
func TestGroupsOfDefinitions(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	k := newKind()
	s.Kubectl(k.definition("Namespaced"), "create", "-f", "-")
	v1 := fmt.Sprintf(`"groupVersion":"%s/v1"`, k.group)
	raw := func(path string) string { return strings.ReplaceAll(s.Kubectl("", "get", "--raw", path), ": ", ":") }
	harness.Contains(t, raw("/apis"), v1)
	harness.Contains(t, raw("/apis/"+k.group), v1)

	s.Kubectl(fmt.Sprintf(`apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v2.%s}
spec:
  group: %s
  version: v2
  groupPriorityMinimum: 1000
  versionPriority: 200
  insecureSkipTLSVerify: true
  service: {namespace: default, name: nothing}
`, k.group, k.group), "create", "-f", "-")
	preferred := fmt.Sprintf(`"preferredVersion":{"groupVersion":"%s/v2"`, k.group)
	harness.Eventually(t, "/apis has both versions", func() error {
		if groups := raw("/apis"); !strings.Contains(groups, v1) || !strings.Contains(groups, preferred) {
			return fmt.Errorf("%s", groups)
		}
		return nil
	})
	s.Kubectl("", "delete", "apiservice", "v2."+k.group)
	s.Kubectl("", "delete", "crd", k.crd())
	harness.Eventually(t, "the group is gone", func() error {
		if groups := raw("/apis"); strings.Contains(groups, k.group) {
			return fmt.Errorf("%s", groups)
		}
		return nil
	})
}
