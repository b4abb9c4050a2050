package workloads

import (
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestPriorityClassesOfAFullDatabase: a server whose classes exist starts when etcd has no
// room.
func TestPriorityClassesOfAFullDatabase(t *testing.T) {
	client := fake.NewClientset()
	if err := new(PriorityClasses).Create(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	list, err := client.SchedulingV1().PriorityClasses().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("got %d classes, %v", len(list.Items), err)
	}
	client.PrependReactor("create", "priorityclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Message: "the database is full"}}
	})
	again := &PriorityClasses{}
	if err := again.Create(t.Context(), client); err != nil {
		t.Error(err)
	}
	if err := again.HealthCheck().Check(nil); err != nil {
		t.Errorf("the health check fails: %v", err)
	}
}
