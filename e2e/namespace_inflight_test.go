package e2e

import (
	"sync"
	"testing"
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

	manifests := map[string]string{
		"secrets":      "apiVersion: v1\nkind: Secret\nmetadata: {name: held}\n",
		"rolebindings": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: held}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n",
		k.crd():        k.object("held", ""),
	}
	var creating sync.WaitGroup
	for resource, manifest := range manifests {
		creating.Go(func() {
			if out, err := s.TryKubectl(manifest, "apply", "--server-side", "-n", ns, "-f", "-"); err != nil {
				t.Errorf("create %s: %v\n%s", resource, err, out)
			}
		})
		<-webhook.arrived
	}
	s.Kubectl("", "delete", "namespace", ns, "--wait=false")
	// What is deleted later is gone earlier.
	s.Kubectl("", "delete", "namespace", namespace(t, s))
	if out := s.Kubectl("", "get", "namespace", ns, "-o", "jsonpath={.status.phase}"); out != "Terminating" {
		t.Errorf("the namespace is %s", out)
	}
	refused(t, s, "", []string{"create", "configmap", "late", "-n", ns}, "because it is being terminated")
	webhook.release()
	creating.Wait()
	s.Await("delete", "namespace/"+ns)
	s.Kubectl("", "create", "namespace", ns)
	for resource := range manifests {
		if out := s.Kubectl("", "get", resource, "-n", ns, "-o", "name"); out != "" {
			t.Errorf("left over from the deleted namespace: %s", out)
		}
	}
}
