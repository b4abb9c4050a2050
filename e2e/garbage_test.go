package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// family is a chain of custom resources: parent owns child owns grandchild.
type family struct {
	kind   kind
	client dynamic.ResourceInterface
}

func newFamily(t *testing.T, s *harness.Server) family {
	t.Helper()
	ns, k := namespace(t, s), newKind()
	define(t, s, k, k.definition("Namespaced"))
	f := family{k, s.Dynamic().Resource(k.resource()).Namespace(ns)}
	parent := custom(t, f.client, k, "parent")
	child := custom(t, f.client, k, "child", owner(parent))
	custom(t, f.client, k, "grandchild", owner(child))
	return f
}

func owner(of *unstructured.Unstructured) metav1.OwnerReference {
	block := true
	return metav1.OwnerReference{APIVersion: of.GetAPIVersion(), Kind: of.GetKind(), Name: of.GetName(), UID: of.GetUID(), BlockOwnerDeletion: &block}
}

func (f family) get(t *testing.T, name string) (*unstructured.Unstructured, error) {
	return f.client.Get(t.Context(), name, metav1.GetOptions{})
}

func (f family) delete(t *testing.T, name string, policy metav1.DeletionPropagation) {
	t.Helper()
	if err := f.client.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatalf("delete %s: %v", name, err)
	}
}

func (f family) gone(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		gone(t, name, func() error {
			_, err := f.get(t, name)
			return err
		})
	}
}

// hold puts a finalizer on an object or, with none, takes it off.
func (f family) hold(t *testing.T, name, finalizers string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"finalizers":%s}}`, finalizers)
	if _, err := f.client.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatalf("set the finalizers of %s: %v", name, err)
	}
}

// TestForegroundDeletion: the owner waits for dependents that block it.
func TestForegroundDeletion(t *testing.T) {
	t.Parallel()
	f := newFamily(t, shared.Server(t))
	f.hold(t, "child", `["example.com/hold"]`)
	f.delete(t, "parent", metav1.DeletePropagationForeground)
	harness.Eventually(t, "the child is being deleted", func() error {
		child, err := f.get(t, "child")
		if err == nil && child.GetDeletionTimestamp() == nil {
			err = errors.New("it is not")
		}
		return err
	})
	parent, err := f.get(t, "parent")
	if err != nil {
		t.Fatalf("the parent must wait for the child: %v", err)
	}
	if parent.GetDeletionTimestamp() == nil || !slices.Contains(parent.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		t.Errorf("the parent has finalizers %v and deletion timestamp %v", parent.GetFinalizers(), parent.GetDeletionTimestamp())
	}
	f.hold(t, "child", "null")
	f.gone(t, "parent", "child", "grandchild")
}

// TestClusterScopedOwner: a cluster-scoped object may own namespaced ones of
// built-in and custom kinds, in several namespaces.
func TestClusterScopedOwner(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	f, k := newFamily(t, s), newKind()
	define(t, s, k, k.definition("Cluster"))
	owners := s.Dynamic().Resource(k.resource())
	root := custom(t, owners, k, "root")
	custom(t, f.client, f.kind, "owned", owner(root))
	ns := namespace(t, s)
	s.Kubectl(fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences: [{apiVersion: %s, kind: %s, name: root, uid: %s}]
`, root.GetAPIVersion(), root.GetKind(), root.GetUID()), "create", "-n", ns, "-f", "-")
	s.Kubectl("", "delete", k.crd(), "root")
	f.gone(t, "owned")
	gone(t, "the config map", func() error {
		_, err := s.Client().CoreV1().ConfigMaps(ns).Get(t.Context(), "owned", metav1.GetOptions{})
		return err
	})
	if _, err := f.get(t, "grandchild"); err != nil {
		t.Errorf("the dependent of another owner: %v", err)
	}
}

// TestTypesWithoutClientsAreCollected: the garbage collector has the objects of a type
// that no client uses.
func TestTypesWithoutClientsAreCollected(t *testing.T) {
	t.Parallel()
	first := harness.Start(t)
	k := newKind()
	first.Kubectl(k.definition("Namespaced"), "create", "-f", "-")
	parent, err := first.Client().CoreV1().ConfigMaps("default").Create(t.Context(), configMap("parent"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	custom(t, first.Dynamic().Resource(k.resource()).Namespace("default"), k, "child",
		metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: parent.Name, UID: parent.UID})
	if code := first.Stop(); code != harness.ExitOK {
		t.Fatalf("the server ended with exit code %d", code)
	}
	s := harness.StartIn(t, first.Dir)
	if err := s.Client().CoreV1().ConfigMaps("default").Delete(t.Context(), parent.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "child", func() error {
		_, err := s.Dynamic().Resource(k.resource()).Namespace("default").Get(t.Context(), "child", metav1.GetOptions{})
		return err
	})
}
