package workloads

import (
	"errors"
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/fake"
)

// written has the address and the port of the endpoints and of the EndpointSlice.
func written(t *testing.T, client *fake.Clientset) (endpoints, slice string) {
	t.Helper()
	e, err := client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	s, sliceErr := client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err := errors.Join(err, sliceErr); err != nil {
		t.Fatal(err)
	}
	if len(e.Subsets) != 1 || len(s.Endpoints) != 1 || len(s.Ports) != 1 {
		t.Fatalf("the endpoints are %v, the slice is %v", e.Subsets, s)
	}
	return fmt.Sprintf("%s:%d", e.Subsets[0].Addresses[0].IP, e.Subsets[0].Ports[0].Port),
		fmt.Sprintf("%s:%d", s.Endpoints[0].Addresses[0], *s.Ports[0].Port)
}

// TestEndpointsOfTheServer: each start replaces the endpoints of the start before, and
// changes by clients.
func TestEndpointsOfTheServer(t *testing.T) {
	client := fake.NewClientset()
	ports := func(port int32) []corev1.EndpointPort {
		return []corev1.EndpointPort{{Name: "https", Port: port, Protocol: corev1.ProtocolTCP}}
	}
	for _, start := range []struct {
		address string
		port    int32
	}{{"192.0.2.1", 6443}, {"192.0.2.1", 7443}, {"192.0.2.2", 7443}, {"2001:db8::1", 7443}} {
		e := newEndpoints(client, net.ParseIP(start.address))
		if err := e.RemoveEndpoints("kubernetes", nil, nil); !storage.IsNotFound(err) {
			t.Errorf("at the start: %v", err)
		}
		want := fmt.Sprintf("%s:%d", start.address, start.port)
		for range 2 {
			if err := e.ReconcileEndpoints("kubernetes", nil, ports(start.port), false); err != nil {
				t.Fatal(err)
			}
			if endpoints, slice := written(t, client); endpoints != want || slice != want {
				t.Errorf("the endpoints are %s, the slice has %s, want %s", endpoints, slice, want)
			}
			changed, err := client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
			if err == nil {
				changed.Subsets = nil
				_, err = client.CoreV1().Endpoints("default").Update(t.Context(), changed, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		e.StopReconciling()
		if err := e.RemoveEndpoints("kubernetes", nil, nil); err != nil {
			t.Errorf("at the stop: %v", err)
		}
	}
}

// TestNoEndpointsWithoutAnAddress: a host without a network has none.
func TestNoEndpointsWithoutAnAddress(t *testing.T) {
	client := fake.NewClientset()
	e := newEndpoints(client, nil)
	if err := e.ReconcileEndpoints("kubernetes", nil, nil, false); err != nil || len(client.Actions()) > 0 {
		t.Errorf("%v, %v", err, client.Actions())
	}
}
