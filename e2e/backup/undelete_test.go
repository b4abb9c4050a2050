package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// gadgets defines a type with a status.
const gadgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, shortNames: [gd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// undeletion is a server with a journal, and the commands on it.
type undeletion struct {
	*testing.T
	s    *harness.Server
	from string
}

func (u undeletion) in(t *testing.T) undeletion { return undeletion{t, u.s.For(t), u.from} }

// run runs a command with the journal, when that has everything.
func (u undeletion) run(code int, args ...string) string {
	u.Helper()
	journaled(u.T, u.s)
	return harness.Runs(u.T, code, append(args, "--data-dir", u.s.Dir, "--from", u.from)...)
}

// get returns an object; nil if it does not exist.
func (u undeletion) get(resource, namespace, name string) *unstructured.Unstructured {
	u.Helper()
	gvr := schema.GroupVersionResource{Version: "v1", Resource: resource}
	if before, group, found := strings.Cut(resource, "."); found {
		gvr.Resource, gvr.Group = before, group
	}
	client := u.s.Dynamic().Resource(gvr)
	var object *unstructured.Unstructured
	var err error
	if namespace == "" {
		object, err = client.Get(u.Context(), name, metav1.GetOptions{})
	} else {
		object, err = client.Namespace(namespace).Get(u.Context(), name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		u.Fatal(err)
	}
	return object
}

// gone waits until an object does not exist.
func (u undeletion) gone(resource, namespace, name string) {
	u.Helper()
	harness.Eventually(u, resource+" "+name+" is gone", func() error {
		if u.get(resource, namespace, name) != nil {
			return errors.New("it exists")
		}
		return nil
	})
}

// apply creates objects as a manager.
func (u undeletion) apply(manager, manifest string) {
	u.Helper()
	u.s.Kubectl(manifest, "apply", "--server-side", "--field-manager", manager, "-f", "-")
}

// owned is an owner reference in a manifest.
func owned(by *unstructured.Unstructured) string {
	return fmt.Sprintf("[{apiVersion: %s, kind: %s, name: %s, uid: %s}]", by.GetAPIVersion(), by.GetKind(), by.GetName(), by.GetUID())
}

// garbageCollected waits until the garbage collector has looked at an object that
// was created now.
func (u undeletion) garbageCollected() {
	u.Helper()
	u.s.Kubectl("{apiVersion: v1, kind: ConfigMap, metadata: {name: canary, namespace: default, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: none, uid: none}]}}", "create", "-f", "-")
	u.gone("configmaps", "default", "canary")
}

// TestUndelete deletes objects in the ways that users do, and brings them back.
func TestUndelete(t *testing.T) {
	t.Parallel()
	destination := filepath.Join(t.TempDir(), "journal")
	s := harness.Start(t, "--config", journaling(t, destination))
	u := undeletion{t, s, destination}
	journaled(t, s) // so that each later revision can be shown: the base is made beside the start
	s.Kubectl(gadgets, "create", "-f", "-")
	tests := []struct {
		name string
		run  func(undeletion)
	}{
		{"dependents", undeleteDependents}, {"history", readHistory}, {"name taken", undeleteTaken}, {"refused", undeleteRefused},
		{"rights", undeleteWithoutRights}, {"owner gone", undeleteWithoutOwner}, {"namespace", undeleteNamespace}, {"owned namespaces", undeleteOwnedNamespaces}, {"older version", undeleteOlderVersion}, {"interrupted", undeleteInterrupted}, {"type gone", undeleteDefinition}, {"bad input", undeleteBadInput},
	}
	if testing.Short() {
		tests = tests[:2]
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(u.in(t)) })
	}
}

// undeleteDependents brings back an object with finalizers and dependents over three
// levels, one of which is an encrypted Secret.
func undeleteDependents(u undeletion) {
	u.apply("maker", "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: root, namespace: default, finalizers: [example.com/hold]}, spec: {size: 1}}")
	u.s.Kubectl("", "patch", "gadget", "root", "--subresource", "status", "--type", "merge", "-p", `{"status":{"phase":"Done"}}`)
	root := u.get("gadgets.example.com", "default", "root")
	u.apply("maker", "{apiVersion: v1, kind: ConfigMap, metadata: {name: child, namespace: default, ownerReferences: "+owned(root)+"}, data: {a: b}}")
	child := u.get("configmaps", "default", "child")
	u.apply("maker", "{apiVersion: v1, kind: Secret, metadata: {name: grandchild, namespace: default, ownerReferences: "+owned(child)+"}, stringData: {key: value}}")
	u.s.Kubectl("", "delete", "gd", "root", "--wait=false")
	u.s.Kubectl("", "patch", "gd", "root", "--type", "json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	u.gone("secrets", "default", "grandchild")

	dry := u.run(harness.ExitOK, "undelete", "gd", "root", "--dry-run")
	harness.Contains(u, dry, "create  Gadget", "create  ConfigMap", "create  Secret")
	if u.get("gadgets.example.com", "default", "root") != nil || u.get("configmaps", "default", "child") != nil {
		u.Fatal("the dry run has created something")
	}
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "gadgets", "root"), "created  Gadget", "created  ConfigMap", "created  Secret")
	u.garbageCollected()
	again := u.get("gadgets.example.com", "default", "root")
	if again.GetUID() == root.GetUID() || !slices.Equal(again.GetFinalizers(), root.GetFinalizers()) {
		u.Errorf("it came back as %v", again.Object)
	}
	if phase, _, _ := unstructured.NestedString(again.Object, "status", "phase"); phase != "Done" {
		u.Errorf("its status is %v", again.Object["status"])
	}
	if managers := fmt.Sprint(again.GetManagedFields()); !strings.Contains(managers, "maker") || strings.Contains(managers, "undelete") {
		u.Errorf("its managers are %s", managers)
	}
	newChild, grandchild := u.get("configmaps", "default", "child"), u.get("secrets", "default", "grandchild")
	if newChild.GetOwnerReferences()[0].UID != again.GetUID() || grandchild.GetOwnerReferences()[0].UID != newChild.GetUID() {
		u.Errorf("the owners are %v and %v", newChild.GetOwnerReferences(), grandchild.GetOwnerReferences())
	}
	if data := fmt.Sprint(grandchild.Object["data"]); data != "map[key:dmFsdWU=]" {
		u.Errorf("the secret has %s", data)
	}
	// The former managers apply without conflicts, and a repetition changes nothing.
	u.apply("maker", "{apiVersion: example.com/v1, kind: Gadget, metadata: {name: root, namespace: default, finalizers: [example.com/hold]}, spec: {size: 2}}")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "configmap/child"), "exists")
}

// version is a version as `history get` lists it.
type version struct {
	Revision        int64
	Change, Manager string
}

func (u undeletion) versions(kind, name string) (versions []version) {
	u.Helper()
	text := u.run(harness.ExitOK, "history", "get", kind, name, "-o", "json")
	if err := json.Unmarshal([]byte(text), &versions); err != nil {
		u.Fatalf("%v: %s", err, text)
	}
	return versions
}

// readHistory lists and shows the versions of the objects before.
func readHistory(u undeletion) {
	versions := u.versions("gd", "root")
	var changes []string
	for _, v := range versions {
		changes = append(changes, v.Change)
	}
	text := strings.Join(changes, " ")
	if !strings.HasPrefix(text, "created changed deleting deleted created") || versions[0].Manager != "maker" {
		u.Fatalf("the versions are %+v", versions)
	}
	first := fmt.Sprint(versions[0].Revision)
	harness.Contains(u, u.run(harness.ExitOK, "history", "get", "gd", "root"), "REVISION", "maker", first, "deleted")
	harness.Contains(u, u.run(harness.ExitOK, "history", "show", "gd", "root", "--revision", first), "size: 1")
	harness.Contains(u, u.run(harness.ExitFailure, "history", "show", "gd", "root", "--revision", fmt.Sprint(versions[3].Revision)), "did not exist at revision")
	harness.Contains(u, u.run(harness.ExitOK, "history", "show", "gd", "root", "--at", time.Now().UTC().Format(time.RFC3339Nano)), "size: 2")
	harness.Contains(u, u.run(harness.ExitOK, "history", "show", "secret", "grandchild", "--revision", fmt.Sprint(u.versions("secret", "grandchild")[0].Revision)), "key: dmFsdWU=")
	harness.Contains(u, u.run(harness.ExitFailure, "history", "get", "configmap", "nothing"), "has no version of configmaps/nothing")
}

// undeleteTaken: another object has the name.
func undeleteTaken(u undeletion) {
	u.apply("maker", "{apiVersion: v1, kind: ConfigMap, metadata: {name: taken, namespace: default}, data: {a: before}}")
	u.s.Kubectl("", "delete", "configmap", "taken")
	u.apply("other", "{apiVersion: v1, kind: ConfigMap, metadata: {name: taken, namespace: default}, data: {a: after}}")
	before := u.get("configmaps", "default", "taken")
	revision := u.deletedAt("configmap", "taken") - 1
	harness.Contains(u, u.run(harness.ExitFailure, "undelete", "configmap", "taken", "--revision", fmt.Sprint(revision)), "name taken", "nothing was created")
	if after := u.get("configmaps", "default", "taken"); after.GetResourceVersion() != before.GetResourceVersion() {
		u.Errorf("it was changed: %v", after.Object)
	}
}

// deletedAt is the revision of the last deletion.
func (u undeletion) deletedAt(kind, name string) int64 {
	u.Helper()
	versions := u.versions(kind, name)
	for _, v := range slices.Backward(versions) {
		if v.Change == "deleted" {
			return v.Revision
		}
	}
	u.Fatalf("%s %s was never deleted: %v", kind, name, versions)
	return 0
}

// undeleteRefused: a policy that came later refuses one of two objects.
func undeleteRefused(u undeletion) {
	u.apply("maker", "{apiVersion: v1, kind: ConfigMap, metadata: {name: policed, namespace: default}, data: {a: b}}")
	policed := u.get("configmaps", "default", "policed")
	u.apply("maker", "{apiVersion: v1, kind: Secret, metadata: {name: policed, namespace: default, ownerReferences: "+owned(policed)+"}}")
	u.s.Kubectl("", "delete", "configmap", "policed")
	u.gone("secrets", "default", "policed")
	policy := `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-secrets}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}
  validations: [{expression: "object.metadata.name != 'policed'", message: not this one}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-secrets}
spec: {policyName: no-secrets, validationActions: [Deny]}
`
	u.s.Kubectl(policy, "create", "-f", "-")
	defer u.s.Kubectl(policy, "delete", "-f", "-")
	harness.Eventually(u, "the policy is in force", func() error {
		if out, err := u.s.TryKubectl("", "create", "secret", "generic", "policed", "--dry-run=server"); err == nil || !strings.Contains(out, "not this one") {
			return errors.New(out)
		}
		return nil
	})
	for _, flags := range [][]string{{"--dry-run"}, nil} {
		harness.Contains(u, u.run(harness.ExitFailure, append([]string{"undelete", "configmap", "policed"}, flags...)...), "refused  Secret", "not this one", "create   ConfigMap")
		if u.get("configmaps", "default", "policed") != nil {
			u.Fatal("something was created")
		}
	}
	harness.Contains(u, u.run(harness.ExitFailure, "undelete", "configmap", "policed", "--partial"), "refused  Secret", "created  ConfigMap", "1 of 2")
	if u.get("configmaps", "default", "policed") == nil {
		u.Error("what can come back did not")
	}
}

// undeleteWithoutRights: a user who may not create gets a list.
func undeleteWithoutRights(u undeletion) {
	u.apply("maker", "{apiVersion: v1, kind: ConfigMap, metadata: {name: forbidden, namespace: default}}")
	u.s.Kubectl("", "delete", "configmap", "forbidden")
	kubeconfig := filepath.Join(u.TempDir(), "jane")
	harness.Runs(u, harness.ExitOK, "kubeconfig", "create", "jane", "--data-dir", u.s.Dir, "--output", kubeconfig)
	harness.Contains(u, u.run(harness.ExitFailure, "undelete", "configmap", "forbidden", "--kubeconfig", kubeconfig), "refused  ConfigMap", "jane", "nothing was created")
	u.s.Kubectl("", "create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane")
	harness.Eventually(u, "jane has rights", func() error {
		if out, err := u.s.TryKubectl("", "auth", "can-i", "create", "configmaps", "-n", "default", "--as", "jane"); err != nil {
			return errors.New(out)
		}
		return nil
	})
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "configmap", "forbidden", "--kubeconfig", kubeconfig), "created  ConfigMap")
}

// undeleteWithoutOwner: the garbage collector would delete the object again.
func undeleteWithoutOwner(u undeletion) {
	u.apply("maker", "{apiVersion: v1, kind: ConfigMap, metadata: {name: owner, namespace: default}}")
	u.apply("maker", "{apiVersion: v1, kind: ConfigMap, metadata: {name: dependent, namespace: default, ownerReferences: "+owned(u.get("configmaps", "default", "owner"))+"}}")
	u.s.Kubectl("", "delete", "configmap", "owner")
	u.gone("configmaps", "default", "dependent")
	harness.Contains(u, u.run(harness.ExitFailure, "undelete", "configmap", "dependent"), "owner gone", "--orphan")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "configmap", "dependent", "--orphan"), "created  ConfigMap")
	u.garbageCollected()
	if dependent := u.get("configmaps", "default", "dependent"); dependent == nil || len(dependent.GetOwnerReferences()) > 0 {
		u.Errorf("the dependent is %v", dependent)
	}
}

// undeleteNamespace brings back a namespace with its content.
func undeleteNamespace(u undeletion) {
	u.s.Kubectl("", "create", "namespace", "team")
	harness.Eventually(u, "the namespace is furnished", func() error {
		if u.get("serviceaccounts", "team", "default") == nil || u.get("configmaps", "team", "kube-root-ca.crt") == nil {
			return errors.New("not yet")
		}
		return nil
	})
	u.s.Kubectl("", "label", "namespace", "team", "tier=one")
	u.s.Kubectl("", "annotate", "serviceaccount", "-n", "team", "default", "of=team")
	u.apply("maker", `{apiVersion: v1, kind: List, items: [
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: team}, data: {a: b}},
{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: team, annotations: {kubernetes.io/service-account.name: default}}, type: kubernetes.io/service-account-token},
{apiVersion: v1, kind: ResourceQuota, metadata: {name: few, namespace: team}, spec: {hard: {configmaps: "2"}}},
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: edit, namespace: team}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}},
{apiVersion: example.com/v1, kind: Gadget, metadata: {name: one, namespace: team}, spec: {size: 7}}]}`)
	tokenOf := func() string {
		secret := u.get("secrets", "team", "token")
		if secret == nil {
			return ""
		}
		token, _, _ := unstructured.NestedString(secret.Object, "data", "token")
		return token
	}
	token := ""
	harness.Eventually(u, "the secret has a token", func() error {
		if token = tokenOf(); token == "" {
			return errors.New("not yet")
		}
		return nil
	})
	journaled(u.T, u.s)
	moment := time.Now()
	u.s.Kubectl("", "delete", "namespace", "team")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "ns", "team", "--dry-run"), "create  Namespace", "not checked: its namespace does not exist yet")
	if u.get("namespaces", "", "team") != nil {
		u.Fatal("the dry run has created the namespace")
	}
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "namespace", "team", "--at", moment.UTC().Format(time.RFC3339Nano)), "created  Namespace", "created  ServiceAccount", "created  Gadget", "the server makes it")
	if ns := u.get("namespaces", "", "team"); ns.GetLabels()["tier"] != "one" {
		u.Errorf("the namespace is %v", ns.Object)
	}
	for resource, name := range map[string]string{"configmaps": "settings", "resourcequotas": "few", "rolebindings.rbac.authorization.k8s.io": "edit", "gadgets.example.com": "one"} {
		if u.get(resource, "team", name) == nil {
			u.Errorf("%s %s is missing", resource, name)
		}
	}
	if account := u.get("serviceaccounts", "team", "default"); account.GetAnnotations()["of"] != "team" {
		u.Errorf("the service account is %v", account.Object)
	}
	harness.Eventually(u, "the secret has a new token", func() error {
		if now := tokenOf(); now == "" || now == token {
			return fmt.Errorf("it has %q", now)
		}
		return nil
	})
}

// undeleteDefinition: a type that is gone comes back with its objects.
func undeleteDefinition(u undeletion) {
	before := u.get("gadgets.example.com", "team", "one").GetResourceVersion()
	u.s.Kubectl("", "patch", "gd", "root", "--type", "json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	u.s.Kubectl("", "delete", "crd", "gadgets.example.com")
	harness.Eventually(u, "the type is gone", func() error {
		if out, err := u.s.TryKubectl("", "get", "gadgets"); err == nil || !strings.Contains(out, "resource type") {
			return errors.New(out)
		}
		return nil
	})
	harness.Contains(u, u.run(harness.ExitFailure, "undelete", "gadgets.example.com", "one", "-n", "team"), "undelete crd gadgets.example.com")
	harness.Contains(u, u.run(harness.ExitFailure, "undelete", "namespace", "team", "--revision", before, "--dry-run"), "type gone  Gadget", "would not come back")
	harness.Contains(u, u.run(harness.ExitOK, "history", "get", "gadgets.example.com", "one", "-n", "team"), "created", "deleted")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "crd", "gadgets.example.com", "--dry-run"), "not checked: its type does not exist yet")
	harness.Contains(u, u.run(harness.ExitOK, "undelete", "crd", "gadgets.example.com"), "created  CustomResourceDefinition", "created  Gadget")
	one := u.get("gadgets.example.com", "team", "one")
	if size, _, _ := unstructured.NestedInt64(one.Object, "spec", "size"); size != 7 {
		u.Errorf("it came back as %v", one.Object)
	}
	if u.get("gadgets.example.com", "default", "root") == nil {
		u.Error("the object in another namespace is missing")
	}
}

// undeleteBadInput: nothing is done.
func undeleteBadInput(u undeletion) {
	deleted := fmt.Sprint(u.deletedAt("configmap", "taken"))
	for _, test := range []struct {
		code int
		args []string
		want string
	}{
		{harness.ExitUsage, []string{"undelete", "configmap"}, "takes KIND NAME"},
		{harness.ExitUsage, []string{"undelete", "configmap/"}, "is not an object"},
		{harness.ExitUsage, []string{"undelete", "configmap", "a", "--at", "yesterday"}, "is not a time"},
		{harness.ExitUsage, []string{"undelete", "configmap", "a", "--at", "2126-11-21T15:04:05Z"}, "in the future"},
		{harness.ExitUsage, []string{"undelete", "configmap", "a", "-o", "xml"}, "allowed"},
		{harness.ExitFailure, []string{"undelete", "nonsense", "a"}, `no type "nonsense"`},
		{harness.ExitFailure, []string{"undelete", "configmap", "never"}, "does not have configmaps/never"},
		{harness.ExitFailure, []string{"undelete", "configmap", "taken", "--revision", deleted}, "did not exist at revision " + deleted + " ("},
		{harness.ExitFailure, []string{"undelete", "configmap", "settings", "--revision", "1000000000000"}, "cannot be restored"},
		{harness.ExitUsage, []string{"history", "show", "configmap", "settings"}, "--at or --revision"},
		{harness.ExitUsage, []string{"history", "get", "configmap", "settings", "--limit", "-1"}, "must not be negative"},
	} {
		harness.Contains(u, u.run(test.code, test.args...), test.want)
	}
	harness.Contains(u, harness.Runs(u, harness.ExitUsage, "undelete", "configmap", "a", "--data-dir", u.TempDir()), "there is no journal")
	harness.Contains(u, harness.Runs(u, harness.ExitFailure, "undelete", "configmap", "a", "--data-dir", u.s.Dir, "--from", u.TempDir()), "has no journal")
}
