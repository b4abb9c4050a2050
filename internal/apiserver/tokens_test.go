package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestTokenGetterReadsFromTheStore: what a token is bound to is found before the caches
// have it. The informers of this test never start.
func TestTokenGetterReadsFromTheStore(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "team", Name: "robot"}
	client := fake.NewClientset(&corev1.ServiceAccount{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta})
	getter := (profile{}).tokenGetter(client)(informers.NewSharedInformerFactory(client, 0))
	if account, err := getter.GetServiceAccount(t.Context(), "team", "robot"); err != nil || account.Name != "robot" {
		t.Errorf("the service account: %v, %v", account, err)
	}
	if secret, err := getter.GetSecret(t.Context(), "team", "robot"); err != nil || secret.Name != "robot" {
		t.Errorf("the secret: %v, %v", secret, err)
	}
	for what, err := range map[string]error{
		"a deleted service account": second(getter.GetServiceAccount(t.Context(), "team", "gone")),
		"a deleted secret":          second(getter.GetSecret(t.Context(), "team", "gone")),
		"a pod":                     second(getter.GetPod(t.Context(), "team", "robot")),
		"a node":                    second(getter.GetNode(t.Context(), "robot")),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v, want NotFound", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
