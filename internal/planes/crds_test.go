package planes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// crdOf returns a CRD as YAML.
func crdOf(plural string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + plural + `.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: ` + plural + `, kind: K` + plural + `}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`
}

// TestCRDs: a control plane has the CRDs of a config map with the label at its first start, those
// that were added at a later one, and those of another control plane.
func TestCRDs(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	host := newClient(t, h.config)
	maps := host.CoreV1().ConfigMaps("default")
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "crds"}, Data: map[string]string{"a.yaml": "---\n" + crdOf("gadgets") + "---\n" + crdOf("widgets")}}
	source, err := maps.Create(t.Context(), source, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	from := map[string]any{"crds": map[string]any{"configMaps": []any{map[string]any{"namespace": "default", "name": "crds"}}}}
	client := h.create(t, "acme", from)
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), definitionsLabel) {
		t.Fatalf("a config map without the label is read: %v", err)
	}
	source.Labels = map[string]string{definitionsLabel: "true"}
	if source, err = maps.Update(t.Context(), source, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the types are served", func() bool { return h.serves(t, "acme", "gadgets") && h.serves(t, "acme", "widgets") })
	h.sleepNow(t, "acme")
	source.Data["b.yaml"] = crdOf("gizmos")
	if source, err = maps.Update(t.Context(), source, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !h.serves(t, "acme", "gizmos") {
		t.Error("a start does not apply what was added")
	}
	h.sleepNow(t, "acme")
	delete(source.Labels, definitionsLabel)
	if source, err = maps.Update(t.Context(), source, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !h.serves(t, "acme", "gizmos") {
		t.Error("it does not start with the CRDs that it has")
	}
	h.await(t, "acme", func(o *object) bool {
		return o.Status.Phase == phaseAwake && strings.Contains(o.Status.Conditions[0].Message, definitionsLabel)
	})
	source.Labels = map[string]string{definitionsLabel: "true"}
	if _, err = maps.Update(t.Context(), source, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// One that was never started begins with its CRDs, and so does its copy, with authorities of its own.
	h.create(t, "template", from)
	if err := h.tryCreate(t.Context(), "copy", map[string]any{"from": map[string]any{"controlPlane": "template"}}); err != nil {
		t.Fatal(err)
	}
	copied := h.client(t, "copy") // its first request waits until it is made
	if !h.serves(t, "copy", "gizmos") {
		t.Error("the types of the copied control plane are not served")
	}
	if of := authorities(t, copied); strings.Count(of, "BEGIN") != 1 || of == authorities(t, h.client(t, "template")) {
		t.Errorf("aggregated API servers of the copy trust %s", of)
	}
	h.create(t, "other", map[string]any{"crds": map[string]any{"controlPlane": "acme"}})
	if !h.serves(t, "other", "gadgets") || !h.serves(t, "other", "gizmos") {
		t.Error("the types of the other control plane are not served")
	}
}

// authorities returns the authorities of clients that aggregated API servers of a control plane trust.
func authorities(t *testing.T, client kubernetes.Interface) (found string) {
	t.Helper()
	eventually(t, "the authorities are published", func() bool {
		o, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
		if err == nil {
			found = o.Data["client-ca-file"]
		}
		return found != ""
	})
	return found
}

// serves reports whether a control plane answers a list of a type of example.com.
func (h *testHost) serves(t *testing.T, name, plural string) bool {
	t.Helper()
	resource := crds.GroupVersion().WithResource(plural)
	resource.Group = "example.com"
	_, err := newDynamic(t, h.configOf(name)).Resource(resource).Namespace("default").List(t.Context(), metav1.ListOptions{})
	return err == nil
}

// TestDefinitionsOfFailed: the reason of a control plane does not have that of another one, which may
// be this one's.
func TestDefinitionsOfFailed(t *testing.T) {
	t.Parallel()
	host := config.Default()
	host.DataDir = t.TempDir()
	m := New(Config{Host: host})
	m.running = t.Context()
	p := &plane{manager: m, name: "one"}
	m.planes["one"] = p
	p.failure, p.failedAt = errors.New("a long reason"), time.Now()
	_, _, err := m.definitions(t.Context(), CRDs{ControlPlane: "one"}, "")
	want := "read the CRDs of the control plane one: it does not start: kubectl get controlplane one -o wide says why"
	if err == nil || err.Error() != want {
		t.Error(err)
	}
}
