package controlplane_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestZeroOptions: the control plane of the zero options serves clients in the process, and
// stops.
func TestZeroOptions(t *testing.T) {
	cp, err := controlplane.New(controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cp.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if cp.URL() != "" || cp.Kubeconfig() != "" {
		t.Errorf("without a listener it has the URL %q and the kubeconfig %q", cp.URL(), cp.Kubeconfig())
	}
	if err := cp.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	<-cp.Done()
	if err := cp.Err(); err != nil {
		t.Error(err)
	}
}

// TestStopLeavesNoGoroutines: control planes that have stopped leave nothing that runs.
func TestStopLeavesNoGoroutines(t *testing.T) {
	stopped := func() {
		if err := start(t, controlplane.Options{}).Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	stopped() // starts what is started once for the process
	before := 0
	for before != runtime.NumGoroutine() { // the last ones end
		before = runtime.NumGoroutine()
		time.Sleep(100 * time.Millisecond)
	}
	const lives = 3
	for range lives {
		stopped()
	}
	awaitGoroutines(t, before+lives-1)
}

// awaitGoroutines waits until the process has at most so many goroutines.
func awaitGoroutines(t *testing.T, most int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for runtime.NumGoroutine() > most {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left instead of %d:\n%s", runtime.NumGoroutine(), most, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}
