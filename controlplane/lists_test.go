package controlplane_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane/controlplanetest"
)

// TestRemainingItems: each page of a list says how many objects follow.
func TestRemainingItems(t *testing.T) {
	t.Parallel()
	roles := kubernetes.NewForConfigOrDie(controlplanetest.Start(t).Config).RbacV1().ClusterRoles()
	all, err := roles.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 7, 25, len(all.Items) - 1} {
		options := metav1.ListOptions{Limit: int64(limit)}
		for left := len(all.Items); left > 0; {
			page, err := roles.List(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			left -= len(page.Items)
			if page.RemainingItemCount == nil && left > 0 || page.RemainingItemCount != nil && *page.RemainingItemCount != int64(left) {
				t.Errorf("limit %d: %d objects are left, and not %v", limit, left, page.RemainingItemCount)
			}
			options.Continue = page.Continue
		}
	}
}
