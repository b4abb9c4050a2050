package controlplanetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane/controlplanetest"
)

// TestParallel: tests that run at once have servers of their own, with what the options add.
func TestParallel(t *testing.T) {
	refuse := controlplane.Admission{Name: "no maps", Validate: func(_ context.Context, a admission.Attributes) error {
		if a.GetName() == "refused" {
			return errors.New("this name is refused")
		}
		return nil
	}}
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			server := controlplanetest.Start(t, controlplanetest.WithOptions(controlplane.Options{Admission: []controlplane.Admission{refuse}}))
			maps := kubernetes.NewForConfigOrDie(server.Config).CoreV1().ConfigMaps("default")
			if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
			if found, err := maps.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=mine"}); err != nil || len(found.Items) != 1 {
				t.Errorf("found %v, %v", found, err)
			}
			_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}, metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) {
				t.Errorf("the creation of a refused name: %v", err)
			}
		})
	}
}

// TestSilence: after a start, klog writes no errors to standard error either.
func TestSilence(t *testing.T) {
	t.Run("a server", func(t *testing.T) { controlplanetest.Start(t) })
	path, stderr := filepath.Join(t.TempDir(), "stderr"), os.Stderr
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = file
	klog.Error("an error of a library")
	klog.Flush()
	os.Stderr = stderr
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(path); err != nil || len(written) > 0 {
		t.Errorf("standard error has %q, %v", written, err)
	}
}
