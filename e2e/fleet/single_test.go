package fleet

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// createCRD creates one and reports whether the answer has it established.
func createCRD(t *testing.T, s *harness.Server, plural string) bool {
	t.Helper()
	client, err := clientset.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	schema := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}
	created, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: "A" + plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: schema}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range created.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return true
		}
	}
	return false
}

// TestSingleServerOnAnExternalEtcd: on an external etcd a server that is alone
// establishes CRDs in the write that creates them and rotates keys and
// authorities in one step; with a second server it does neither; when that has
// left it does so again, and the second accepts what is signed when it comes back.
func TestSingleServerOnAnExternalEtcd(t *testing.T) {
	t.Parallel()
	urls := endpoints(cluster(t, 1))
	first := server(t, urls, "")
	config := onEtcd(t, urls, "")
	run := func(code int, args ...string) string {
		t.Helper()
		return harness.Runs(t, code, append(args, "--data-dir", first.Dir, "--config", config)...)
	}
	first.Kubectl("", "create", "secret", "generic", "s", "--from-literal=key=value")
	if !createCRD(t, first, "widgets") {
		t.Error("a server that is alone leaves a new CRD waiting")
	}
	harness.Contains(t, run(harness.ExitOK, "encryption", "rotate"), "rotated: 1 object rewritten")
	harness.Contains(t, run(harness.ExitOK, "certs", "rotate", "front-proxy"), "trusted until")

	second := server(t, urls, first.Dir)
	if createCRD(t, first, "gears") {
		t.Error("a new CRD is established before the second server has seen it")
	}
	first.Await("condition=Established", "crd/gears.example.com")
	harness.Contains(t, run(harness.ExitFailure, "encryption", "rotate"), "other servers use this etcd")
	harness.Contains(t, run(harness.ExitFailure, "certs", "rotate", "client"), "stop the others")
	if out := second.Kubectl("", "get", "secret", "s", "-o", "jsonpath={.data.key}"); out != "dmFsdWU=" {
		t.Errorf("the second server reads the secret as %q", out)
	}

	if code := second.Stop(); code != harness.ExitOK {
		t.Fatalf("the second server ended with exit code %d", code)
	}
	if !createCRD(t, first, "wheels") {
		t.Error("a server that is alone again leaves a new CRD waiting")
	}
	second = rotateAndCopy(t, first, second, config)
	if code := second.Stop(); code != harness.ExitOK {
		t.Fatalf("the second server ended with exit code %d", code)
	}
	if code := first.Stop(); code != harness.ExitOK {
		t.Fatalf("the first server ended with exit code %d", code)
	}
	first = harness.StartIn(t, first.Dir, "--config", config)
	harness.Contains(t, run(harness.ExitOK, "encryption", "rotate"), "rotated: 1 object rewritten")
	if out := first.Kubectl("", "get", "secret", "s", "-o", "jsonpath={.data.key}"); strings.TrimSpace(out) != "dmFsdWU=" {
		t.Errorf("after the rotation the secret reads %q", out)
	}
}
