package e2e

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func TestResourceQuota(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k := namespace(t, s), newKind()
	define(t, s, k, k.definition("Namespaced"))
	counted := "count/" + k.crd()
	s.Kubectl(fmt.Sprintf(`apiVersion: v1
kind: ResourceQuota
metadata: {name: limits}
spec:
  hard: {secrets: 1, %s: 2}
`, counted), "create", "-n", ns, "-f", "-")
	used := func(resource, want string) {
		t.Helper()
		harness.Eventually(t, "the quota says that "+want+" of "+resource+" are used", func() error {
			quota, err := s.Client().CoreV1().ResourceQuotas(ns).Get(t.Context(), "limits", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := quota.Status.Used[corev1.ResourceName(resource)]; got.String() != want || quota.Status.Hard == nil {
				return fmt.Errorf("used: %v", quota.Status.Used)
			}
			return nil
		})
	}
	used("secrets", "0")
	used(counted, "0")
	create := []string{"create", "-n", ns, "-f", "-"}
	// Admission learns later than this test what the quota says is used.
	creates := func(stdin string, args ...string) {
		t.Helper()
		harness.Eventually(t, "the quota permits the creation", func() error {
			if out, err := s.TryKubectl(stdin, args...); err != nil {
				return errors.New(out)
			}
			return nil
		})
	}

	creates("", "create", "secret", "generic", "one", "-n", ns)
	refused(t, s, "", []string{"create", "secret", "generic", "two", "-n", ns}, "exceeded quota: limits", "secrets=1")
	s.Kubectl("", "delete", "secret", "one", "-n", ns)
	used("secrets", "0")
	creates("", "create", "secret", "generic", "two", "-n", ns)

	creates(k.object("one", ""), create...)
	creates(k.object("two", ""), create...)
	used(counted, "2")
	refused(t, s, k.object("three", ""), create, "exceeded quota: limits", counted+"=2")
	s.Kubectl("", "delete", k.crd(), "one", "-n", ns)
	used(counted, "1")
	creates(k.object("three", ""), create...)
}
