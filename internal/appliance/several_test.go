package appliance

import (
	"context"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// startServer runs a server until the test ends and returns a client of it.
func startServer(t *testing.T) kubernetes.Interface {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir, cfg.Serving.Port, cfg.Etcd.Embedded.Fsync = t.TempDir(), 0, false
	checked, err := Check(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan Running, 1), make(chan error, 1)
	checked.Extend(Extension{WhenReady: func(running Running) { ready <- running }})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- Run(ctx, checked, slog.New(slog.DiscardHandler)) }()
	select {
	case err := <-ended:
		stop()
		t.Fatal(err)
	case running := <-ready:
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return kubernetes.NewForConfigOrDie(running.Client)
	}
	return nil
}

// TestSeveralServersInOneProcess: each has its own objects and metrics.
func TestSeveralServersInOneProcess(t *testing.T) {
	first, second := startServer(t), startServer(t)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-the-first"}}
	if _, err := first.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	found, err := second.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=of-the-first"})
	if err != nil || len(found.Items) != 0 {
		t.Errorf("the second server has %d objects of the first: %v", len(found.Items), err)
	}
	for _, client := range []kubernetes.Interface{first, second} {
		if _, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()); err != nil {
			t.Errorf("read the metrics: %v", err)
		}
	}
}
