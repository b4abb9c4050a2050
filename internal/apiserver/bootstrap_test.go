package apiserver

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// TestBootstrapEndsWithTheStart: a start that is cut short while it writes the
// bootstrap policy writes nothing more.
func TestBootstrapEndsWithTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client := fake.NewClientset()
	client.PrependReactor("create", "clusterroles", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return false, nil, nil
	})
	if err := kube.EnsureRBAC(ctx, client, nil, bootstrapPolicy()); !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
	created := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "create" {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d objects were created", created)
	}
}

// TestSystemNamespacesOfAFullDatabase: etcd without room refuses to create a namespace
// that exists, which the informer may not have yet. The server starts for reads and
// deletions.
func TestSystemNamespacesOfAFullDatabase(t *testing.T) {
	for reason, starts := range map[metav1.StatusReason]bool{
		storage.ReasonInsufficientStorage:  true,
		metav1.StatusReasonAlreadyExists:   true,
		metav1.StatusReasonInternalError:   false,
		metav1.StatusReasonServerTimeout:   false,
		metav1.StatusReasonTooManyRequests: false,
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: reason}}
		})
		s := &Server{informers: &readyInformers{SharedInformerFactory: informers.NewSharedInformerFactory(client, 0)}, namespaces: []string{metav1.NamespaceSystem}}
		if err := s.installNamespaces(t.Context(), client); (err == nil) != starts {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
