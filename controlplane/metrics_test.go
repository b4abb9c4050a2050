package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestMetricsOfObjects: the metrics of each control plane have the numbers of its own objects.
func TestMetricsOfObjects(t *testing.T) {
	var clients []*kubernetes.Clientset
	for i := range 2 {
		cfg := config.Default()
		cfg.APIServer.Flags["etcd-count-metric-poll-period"] = "50ms"
		client := kubernetes.NewForConfigOrDie(start(t, controlplane.Options{Config: cfg}).RESTConfig())
		for n := range i + 1 {
			object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n)}}
			if _, err := client.CoreV1().ServiceAccounts("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		clients = append(clients, client)
	}
	for i, client := range clients {
		list, err := client.CoreV1().ServiceAccounts("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		counted := fmt.Sprintf("\napiserver_resource_objects{group=\"\",resource=\"serviceaccounts\"} %d\n", len(list.Items))
		var page []byte
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			page, err = client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			return strings.Contains(string(page), counted), err
		}); err != nil {
			t.Errorf("the metrics of control plane %d do not have%s: %v\n%s", i, counted, err, page)
		}
	}
}
