package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
	"kube-hyper-mini.io/kube-hyper-mini/e2e/races"
)

// TestDeletionRightAfterCreation: the first objects of types are made, and their
// owner is deleted at once, with each policy. The garbage collector has no
// monitor of these types before.
func TestDeletionRightAfterCreation(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	const rounds = 6
	outcome, err := races.Run(t.Context(), s.RESTConfig(), unique("races"), races.Config{Rounds: rounds, Dependents: 3, Patience: harness.Patience})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range outcome.Wrong {
		t.Error(wrong)
	}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		if outcome.Right[policy] != rounds {
			t.Errorf("%s: %d of %d rounds ended as they should", policy, outcome.Right[policy], rounds)
		}
	}
}
