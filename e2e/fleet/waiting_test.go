package fleet

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestWaitingWatchesOutliveARestartOfEtcd: a watch of a type without objects has the
// first object that is created after etcd was killed and started again.
func TestWaitingWatchesOutliveARestartOfEtcd(t *testing.T) {
	t.Parallel()
	members := cluster(t, 1)
	s := server(t, endpoints(members), "")
	createCRD(t, s, "widgets")
	widgets := s.Dynamic().Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	var list *unstructured.UnstructuredList
	harness.Eventually(t, "the type can be listed", func() (err error) {
		list, err = widgets.List(t.Context(), metav1.ListOptions{})
		return err
	})
	watcher, err := widgets.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	members[0].kill()
	members[0].start()
	members[0].waitHealthy()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("example.com/v1")
	object.SetKind("Awidgets")
	object.SetName("one")
	harness.Eventually(t, "an object can be created", func() error {
		_, err := widgets.Namespace("default").Create(t.Context(), object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // by an earlier attempt whose answer was lost
			return nil
		}
		return err
	})
	event, open := <-watcher.ResultChan()
	if created, ok := event.Object.(*unstructured.Unstructured); !open || event.Type != watch.Added || !ok || created.GetName() != "one" {
		t.Errorf("got %s %v, open %t; want the object", event.Type, event.Object, open)
	}
}
