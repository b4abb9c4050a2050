package e2e

import (
	"errors"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestNamespaceDeletionIncludesWritesInFlight: a namespace that is deleted while objects
// are being created in it waits for them and takes them with it.
func TestNamespaceDeletionIncludesWritesInFlight(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	webhook := newHeldWebhook(t)
	ns, k := namespace(t, s), newKind()
	define(t, s, k, k.definition("Namespaced"))
	webhook.hold(t, s, ns)
	webhook.await(t, s, ns)
	client, objects := s.Client(), s.Dynamic()
	other := namespace(t, s)

	manifests := map[schema.GroupVersionResource]string{
		corev1.SchemeGroupVersion.WithResource("secrets"):      "apiVersion: v1\nkind: Secret\nmetadata: {name: held}\n",
		rbacv1.SchemeGroupVersion.WithResource("rolebindings"): "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: held}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n",
		k.resource(): k.object("held", ""),
	}
	// The server waits 30 s for the webhook: no programs run until it answers.
	var creating sync.WaitGroup
	for resource, manifest := range manifests {
		object := parse(t, manifest)
		creating.Go(func() {
			if _, err := objects.Resource(resource).Namespace(ns).Apply(t.Context(), "held", object, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
				t.Errorf("create %s: %v", resource, err)
			}
		})
		<-webhook.arrived
	}
	gone := func(name string) {
		t.Helper()
		harness.Eventually(t, "namespace "+name+" is gone", func() error {
			if _, err := client.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("it is there"), err)
			}
			return nil
		})
	}
	// What is deleted later is gone earlier.
	for _, name := range []string{ns, other} {
		if err := client.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	gone(other)
	if namespace, err := client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); err != nil || namespace.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the namespace is %v, %v", namespace, err)
	}
	late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
	if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), late, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "because it is being terminated") {
		t.Errorf("a new object gets %v", err)
	}
	webhook.release()
	creating.Wait()
	gone(ns)
	s.Kubectl("", "create", "namespace", ns)
	for resource := range manifests {
		if list, err := objects.Resource(resource).Namespace(ns).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("left over from the deleted namespace: %v, %v", list, err)
		}
	}
}
