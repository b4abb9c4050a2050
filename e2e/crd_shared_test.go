package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestSharedObjectsAreNotWritten: with client-go's detector of writes to the objects of
// informers, which panics, CRDs are created, read in each form, used, changed and deleted.
func TestSharedObjectsAreNotWritten(t *testing.T) {
	t.Parallel()
	s := harness.LaunchWith(t, harness.Options{Env: []string{"KUBE_CACHE_MUTATION_DETECTOR=true"}})
	s.WaitReady()
	harness.Contains(t, s.Log(), "Mutation detector is enabled")
	k := newKind()
	s.Kubectl(richDefinition(k), "create", "-f", "-")
	objects := s.Dynamic().Resource(k.resource()).Namespace("default")
	waiting, err := objects.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Stop()
	s.Kubectl(k.object("a", "spec: {size: small}"), "create", "-n", "default", "-f", "-")
	if event := <-waiting.ResultChan(); event.Object.(*unstructured.Unstructured).GetName() != "a" {
		t.Errorf("got %+v", event)
	}
	for _, args := range [][]string{
		{"get", "crds"},
		{"get", "crd", k.crd(), "-o", "yaml"},
		{"get", k.crd(), "-A"},
		{"get", "apiservice", "v1." + k.group},
		{"api-resources", "--api-group", k.group},
		{"explain", k.plural + ".spec", "--api-version", k.group + "/v1"},
		{"get", "--raw", "/openapi/v2"},
		{"label", "crd", k.crd(), "changed=yes"},
		{"scale", k.crd() + "/a", "-n", "default", "--replicas=2"},
	} {
		s.Kubectl("", args...)
	}
	changed := strings.Replace(richDefinition(k), "shortNames: ["+k.short()+"]", "shortNames: ["+k.short()+", wdg]", 1)
	s.Kubectl(changed, "apply", "--server-side", "--force-conflicts", "-f", "-")
	harness.Eventually(t, "the new name is known", func() error {
		_, err := s.TryKubectl("", "get", "wdg", "-n", "default")
		return err
	})
	s.Kubectl("", "delete", "crd", k.crd())
	<-time.After(2 * time.Second) // the detector compares every second
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d:\n%s", code, s.Log())
	}
}
