package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestNamespaceHasDefaultObjects: clients depend on these two in every
// namespace.
func TestNamespaceHasDefaultObjects(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, core := namespace(t, s), s.Client().CoreV1()
	harness.Eventually(t, "the service account and the root CA are there", func() error {
		_, err := core.ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		_, err = core.ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	// Who deletes them gets them back.
	s.Kubectl("", "delete", "serviceaccount/default", "configmap/kube-root-ca.crt", "-n", ns, "--wait=false")
	harness.Eventually(t, "they are back", func() error {
		_, err := s.TryKubectl("", "get", "serviceaccount/default", "configmap/kube-root-ca.crt", "-n", ns)
		return err
	})
}

// TestNamespaceDeletionRemovesObjects: also those whose CRD was made a moment before.
func TestNamespaceDeletionRemovesObjects(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k := namespace(t, s), newKind()
	s.Kubectl("", "create", "configmap", "c", "-n", ns)
	s.Kubectl("", "create", "secret", "generic", "s", "-n", ns)
	s.Kubectl("", "create", "role", "r", "-n", ns, "--verb=get", "--resource=configmaps")
	define(t, s, k, k.definition("Namespaced"))
	widgets := s.Dynamic().Resource(k.resource()).Namespace(ns)
	for i := range 25 {
		custom(t, widgets, k, fmt.Sprint("w", i))
	}
	namespaces := s.Client().CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the namespace", func() error {
		_, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{})
		return err
	})
	// The same name again is a new namespace.
	s.Kubectl("", "create", "namespace", ns)
	for _, resource := range []string{k.crd(), "secrets", "roles"} {
		if out := s.Kubectl("", "get", resource, "-n", ns, "-o", "name"); out != "" {
			t.Errorf("left over from the deleted namespace: %s", out)
		}
	}
	if _, err := s.Client().CoreV1().ConfigMaps(ns).Get(t.Context(), "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the config map of the deleted namespace: %v", err)
	}
}

// TestNamespaceDeletionWaitsForFinalizers: a finalizer in the namespace holds
// it, and the conditions of the namespace report it.
func TestNamespaceDeletionWaitsForFinalizers(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k := namespace(t, s), newKind()
	define(t, s, k, k.definition("Namespaced"))
	widgets := s.Dynamic().Resource(k.resource()).Namespace(ns)
	held := custom(t, widgets, k, "held")
	held.SetFinalizers([]string{"example.com/hold"})
	if _, err := widgets.Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	namespaces := s.Client().CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the namespace says what holds it", func() error {
		held, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return holds(held, map[corev1.NamespaceConditionType]string{
			corev1.NamespaceFinalizersRemaining: "example.com/hold in 1 resource instances",
			corev1.NamespaceContentRemaining:    k.crd() + " has 1 resource instances",
		})
	})
	if held, err := widgets.Get(t.Context(), "held", metav1.GetOptions{}); err != nil || held.GetDeletionTimestamp() == nil {
		t.Errorf("the object is not being deleted: %v", err)
	}
	refused(t, s, "", []string{"create", "configmap", "late", "-n", ns}, "because it is being terminated")

	if _, err := widgets.Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the namespace", func() error {
		_, err := namespaces.Get(t.Context(), ns, metav1.GetOptions{})
		return err
	})
}

func holds(ns *corev1.Namespace, want map[corev1.NamespaceConditionType]string) error {
	var errs []error
	for conditionType, message := range want {
		found := ""
		for _, condition := range ns.Status.Conditions {
			if condition.Type == conditionType && condition.Status == corev1.ConditionTrue {
				found = condition.Message
			}
		}
		if !strings.Contains(found, message) {
			errs = append(errs, fmt.Errorf("%s says %q", conditionType, found))
		}
	}
	if ns.Status.Phase != corev1.NamespaceTerminating {
		errs = append(errs, fmt.Errorf("the phase is %s", ns.Status.Phase))
	}
	return errors.Join(errs...)
}
