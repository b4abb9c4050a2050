package servedtypes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDropUnread: informers keep the data that controllers read, and no other.
func TestDropUnread(t *testing.T) {
	data, secret := map[string]string{"a": "b"}, map[string][]byte{"a": nil}
	for _, test := range []struct {
		object metav1.Object
		kept   bool
	}{
		{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "large"}, Data: data, BinaryData: secret}, false},
		{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kube-root-ca.crt"}, Data: data}, true},
		{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}, Data: data}, true},
		{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Data: secret}, false},
		{&corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: secret}, true},
		{&corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: secret}, true},
	} {
		dropped, err := DropUnread(test.object)
		if err != nil {
			t.Fatal(err)
		}
		kept := false
		switch o := dropped.(type) {
		case *corev1.ConfigMap:
			kept = o.Data != nil || o.BinaryData != nil
		case *corev1.Secret:
			kept = o.Data != nil
		}
		if kept != test.kept {
			t.Errorf("%s/%s keeps its data: %v", test.object.GetNamespace(), test.object.GetName(), kept)
		}
	}
}
