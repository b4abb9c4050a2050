package backup

import (
	"reflect"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// undeleteOlderVersion: an object whose type is stored in an older version than the API has
// is shown and comes back in that of the API.
func undeleteOlderVersion(u undeletion) {
	const policies = "mutatingadmissionpolicies.admissionregistration.k8s.io"
	u.apply("maker", `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: older}
spec:
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "add", path: "/data/a", value: "b"}]'}
`)
	policy := u.get(policies, "", "older")
	u.s.Kubectl("", "delete", policies, "older")
	harness.Contains(u, u.run(harness.ExitOK, "history", "show", policies, "older", "--revision", policy.GetResourceVersion()), "apiVersion: admissionregistration.k8s.io/v1\n")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", policies, "older"), "created  MutatingAdmissionPolicy")
	if back := u.get(policies, "", "older"); back == nil {
		u.Error("it did not come back")
	} else if !reflect.DeepEqual(back.Object["spec"], policy.Object["spec"]) {
		u.Errorf("it came back as %v, and was %v", back.Object["spec"], policy.Object["spec"])
	}
}
