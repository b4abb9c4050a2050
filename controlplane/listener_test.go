package controlplane_test

import (
	"context"
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestListenerThatFails: a listener that the program closes ends its control plane with an
// error, and neither the process nor its other control planes.
func TestListenerThatFails(t *testing.T) {
	other := start(t, controlplane.Options{})
	for name, closeBefore := range map[string]bool{"before the start": true, "while it runs": false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cp, err := controlplane.New(controlplane.Options{Listener: listener, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if closeBefore {
			_ = listener.Close()
			err = cp.Start(t.Context())
		} else {
			if err := cp.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = listener.Close()
			<-cp.Done()
			err = cp.Err()
		}
		if err == nil || !strings.Contains(err.Error(), "the listener "+listener.Addr().String()) {
			t.Errorf("closed %s, the control plane ended with %v", name, err)
		}
		if err := cp.Stop(context.Background()); err == nil {
			t.Errorf("closed %s: Stop returned no error", name)
		}
	}
	namespaces := kubernetes.NewForConfigOrDie(other.RESTConfig()).CoreV1().Namespaces()
	if _, err := namespaces.Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Errorf("the other control plane: %v", err)
	}
}
