package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestRefusals: an error of Mutate or Validate is a 403 that names the object and the admission,
// unless it has a status of its own.
func TestRefusals(t *testing.T) {
	refuse := func(_ context.Context, a admission.Attributes) error {
		switch a.GetName() {
		case "plain":
			return errors.New("not here")
		case "gone":
			return apierrors.NewResourceExpired("not any more")
		case "wrapped":
			return fmt.Errorf("look elsewhere: %w", apierrors.NewResourceExpired("not any more"))
		}
		return nil
	}
	for name, a := range map[string]controlplane.Admission{
		"Mutate": {Name: "keeper", Mutate: refuse}, "Validate": {Name: "keeper", Validate: refuse},
	} {
		cp := start(t, controlplane.Options{Admission: []controlplane.Admission{a}})
		maps := kubernetes.NewForConfigOrDie(cp.RESTConfig()).CoreV1().ConfigMaps("default")
		for object, want := range map[string]metav1.Status{
			"plain": {Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				Message: `configmaps "plain" is forbidden: keeper: not here`},
			"gone": {Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "not any more"},
			"wrapped": {Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
				Message: `configmaps "wrapped" is forbidden: keeper: look elsewhere: not any more`},
		} {
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: object}}, metav1.CreateOptions{})
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != want.Code || status.Status().Reason != want.Reason ||
				status.Status().Message != want.Message {
				t.Errorf("%s, %s: %#v, want %+v", name, object, err, want)
			}
		}
	}
}
