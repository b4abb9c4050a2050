package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// unique makes a name that no other test, and no second run of this one, has.
func unique(prefix string) string { return prefix + "-" + rand.String(6) }

// namespace makes a namespace for one test and deletes it when the test ends.
func namespace(t *testing.T, s *harness.Server) string {
	t.Helper()
	namespaces := s.Client().CoreV1().Namespaces()
	name := unique("test")
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	t.Cleanup(func() {
		if !s.Running() {
			return
		}
		err := namespaces.Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			t.Errorf("delete the test's namespace: %v", err)
		}
	})
	return name
}

// kind is a custom resource that a test has defined.
type kind struct {
	group, plural, singular, name string
}

// resource is the kind's type in version v1.
func (k kind) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: "v1", Resource: k.plural}
}

// crd is the name of the kind's definition.
func (k kind) crd() string { return k.plural + "." + k.group }

// short is a short name that no other kind has: on a shared server, kubectl takes the first
// of several.
func (k kind) short() string {
	return strings.NewReplacer(".example.com", "", "-", "").Replace(k.group)
}

// newKind names a kind in a group of its own.
func newKind() kind {
	return kind{unique("g") + ".example.com", "widgets", "widget", "Widget"}
}

// definition is a CRD that accepts everything.
func (k kind) definition(scope string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s}
spec:
  group: %s
  scope: %s
  names: {plural: %s, singular: %s, kind: %s}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, k.crd(), k.group, scope, k.plural, k.singular, k.name)
}

// object is a manifest of the kind.
func (k kind) object(name, rest string) string {
	return fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: %s}\n%s", k.group, k.name, name, rest)
}

// define applies a CRD, waits until all parts of the server use it, and
// removes it when the test ends.
func define(t *testing.T, s *harness.Server, k kind, definition string) {
	t.Helper()
	s.Kubectl(definition, "apply", "-f", "-")
	t.Cleanup(func() {
		if !s.Running() {
			return
		}
		err := s.Dynamic().Resource(crdResource).Delete(context.Background(), k.crd(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete the test's CRD: %v", err)
		}
	})
	s.Await("condition=Established", "crd/"+k.crd())
	harness.Eventually(t, k.crd()+" is served", func() error {
		_, err := s.TryKubectl("", "get", k.crd(), "--all-namespaces")
		return err
	})
}

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// custom makes an object of the kind with the given owners.
func custom(t *testing.T, client dynamic.ResourceInterface, k kind, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(k.resource().GroupVersion().WithKind(k.name))
	obj.SetName(name)
	obj.SetOwnerReferences(owners)
	made, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make %s %s: %v", k.singular, name, err)
	}
	return made
}

// migrated waits for a StorageVersionMigration.
func migrated(t *testing.T, s *harness.Server, name string) {
	t.Helper()
	harness.Eventually(t, "the migration "+name+" has succeeded", func() error {
		out, err := s.TryKubectl("", "wait", "--for=condition=Succeeded", "--timeout=10s", "storageversionmigration/"+name)
		if err != nil {
			return errors.New(out)
		}
		return nil
	})
}

// gone waits until get returns that the object does not exist.
func gone(t *testing.T, what string, get func() error) {
	t.Helper()
	harness.Eventually(t, what+" is gone", func() error {
		err := get()
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("it still exists")
		}
		return err
	})
}

// refused runs kubectl, which must fail with an error that has all the parts.
func refused(t *testing.T, s *harness.Server, stdin string, args []string, parts ...string) {
	t.Helper()
	out, err := s.TryKubectl(stdin, args...)
	if err == nil {
		t.Fatalf("kubectl %s was accepted:\n%s", strings.Join(args, " "), out)
	}
	harness.Contains(t, out, parts...)
}
