package aggregation

import (
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestDeletedServiceEndpointDefinitionIsRecreated: who deletes all CRDs deletes the server's own
// with its objects, and can make the objects again.
func TestDeletedServiceEndpointDefinitionIsRecreated(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	ca := newAuthority(t)
	const namespace, group = "comes-back", "back.example.com"
	served := serve(t, ca.keyPair(t, "api."+namespace+".svc"), discovery(group))
	e.endpoint(namespace, "api", served)
	e.apiService(group, namespace, "api", ca.bundle)
	e.waitAvailable(group, "True", "Passed")

	e.Kubectl("", "delete", "crd", "--all")
	e.waitAvailable(group, "False", "ServiceNotFound")
	e.WaitLog("the definition of ServiceEndpoint was deleted and is created again")
	harness.Eventually(t, "the type is served again", func() error {
		_, err := e.TryKubectl("", "get", "serviceendpoints", "-A")
		return err
	})
	e.endpoint(namespace, "api", served)
	e.waitAvailable(group, "True", "Passed")
	e.waitReachable(namespace, "api", "1/1")
}
