package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// TestWatchAcrossARestart: a watch that cannot resume gets an error, as the watch
// cache of kube-apiserver does after a restart, and the list that follows
// misses nothing.
func TestWatchAcrossARestart(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	before, err := s.Client().CoreV1().ConfigMaps("default").Create(t.Context(), configMap("before"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client().CoreV1().ConfigMaps("default").Create(t.Context(), configMap("last"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	again := harness.StartIn(t, s.Dir)
	maps := again.Client().CoreV1().ConfigMaps("default")
	if event := firstEvent(t, maps, before.ResourceVersion); event.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(event.Object)) {
		t.Errorf("a watch from before the restart got %s %+v", event.Type, event.Object)
	}
	list, err := maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, item := range list.Items {
		names[item.Name] = true
	}
	if !names["before"] || !names["last"] {
		t.Errorf("the list after the restart has %v", names)
	}
	if _, err := maps.Create(t.Context(), configMap("after"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	event := firstEvent(t, maps, list.ResourceVersion)
	if object, ok := event.Object.(*corev1.ConfigMap); !ok || event.Type != watch.Added || object.Name != "after" {
		t.Errorf("the watch from the list got %s %+v", event.Type, event.Object)
	}
}

// firstEvent is the first event of a watch from the version about the objects that the
// test makes.
func firstEvent(t *testing.T, maps typedcorev1.ConfigMapInterface, resourceVersion string) watch.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	watcher, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: resourceVersion, FieldSelector: "metadata.name=after"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	event, ok := <-watcher.ResultChan()
	if !ok {
		t.Fatal("the watch ended without a word")
	}
	return event
}
