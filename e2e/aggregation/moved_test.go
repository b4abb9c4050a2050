package aggregation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// typeMoves has the type served by a CRD, then by the sample server again, and by the CRD:
// the garbage collector follows the objects of the one that serves it.
func typeMoves(t *testing.T, s *sample) {
	const name = "v1alpha1." + wardle
	services := s.Dynamic().Resource(apiServices)
	namespace := unique("moved")
	s.createNamespace(namespace)
	crd := definition(wardle)
	crd.Name = "flunders." + wardle
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "flunders", Singular: "flunder", Kind: "Flunder", ListKind: "FlunderList"}
	crd.Spec.Versions = crd.Spec.Versions[:1]
	crd.Spec.Versions[0].Name = flunders.Version
	s.define(crd)
	s.createFlunder(namespace, "of-the-crd")
	s.collectsFlunder(namespace, "first")

	patch := `{"metadata":{"labels":{"kube-aggregator.kubernetes.io/automanaged":null}},"spec":{"insecureSkipTLSVerify":true,"service":{"namespace":"wardle","name":"api"}}}`
	harness.Eventually(t, "the APIService is there", func() error {
		_, err := services.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	s.waitForFlunders(namespace, 0)
	s.collectsFlunder(namespace, "second")

	if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.waitForFlunders(namespace, 1)
	s.collectsFlunder(namespace, "third")
}

// waitForFlunders waits until the server that serves the type has that number of objects.
func (s *sample) waitForFlunders(namespace string, want int) {
	s.environment.t.Helper()
	harness.Eventually(s.environment.t, fmt.Sprintf("there are %d flunders", want), func() error {
		list, err := s.flunders(namespace).List(s.environment.t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != want {
			return fmt.Errorf("listed: %v, %w", list, err)
		}
		return nil
	})
}

// collectsFlunder deletes the owner of a flunder, which is deleted too.
func (s *sample) collectsFlunder(namespace, name string) {
	t := s.environment.t
	t.Helper()
	maps := s.Client().CoreV1().ConfigMaps(namespace)
	owner, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.createFlunder(namespace, name, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: owner.UID})
	if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.gone(flunders, namespace, name)
}
