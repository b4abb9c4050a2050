// Package tests has tests of an operator that each have a control plane of their own.
package tests

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane/controlplanetest"
)

func TestTwenty(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			server := controlplanetest.Start(t)
			maps := kubernetes.NewForConfigOrDie(server.Config).CoreV1().ConfigMaps("default")
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}
			if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}
