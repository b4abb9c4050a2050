package planes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestRequestsInFlight: a control plane with too many requests refuses further ones, and others
// do not.
func TestRequestsInFlight(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create(t, "acme", nil)
	beta := h.create(t, "beta", nil)
	acme := h.with(t, "acme", func(c *rest.Config) { c.TLSClientConfig = h.config.TLSClientConfig })
	p, err := h.plane("acme")
	if err != nil {
		t.Fatal(err)
	}
	for p.enter() {
	}
	p.exit()
	if _, err := acme.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for p.enter() {
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	result := acme.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces").MaxRetries(0).Do(ctx)
	if err := result.Error(); !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "planes.requestsInFlight") {
		t.Errorf("one request too many gets %v", err)
	}
	if err := acme.CoreV1().RESTClient().Get().AbsPath("/api/v1/watch/namespaces").Param("timeoutSeconds", "1").MaxRetries(0).
		Do(t.Context()).Error(); err != nil {
		t.Errorf("a watch, which is none of these requests, gets %v", err)
	}
	if _, err := beta.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// TestTurns: a request waits for the turn of another one no longer than a turn lasts.
func TestTurns(t *testing.T) {
	b := newServed(nil)
	for range cap(b.turns) * 3 { // nobody calls end
		if _, err := b.take(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var c contests
	p, q := &plane{}, &plane{}
	c.note(p)
	c.until.Store(0) // long ago
	if c.note(p) || !c.note(q) || !c.note(q) {
		t.Error("a contest needs requests to two servers")
	}
}

// BenchmarkFlood measures the requests to one control plane while 100 clients list in another.
func BenchmarkFlood(b *testing.B) {
	h := newHost(b)
	h.config.QPS = -1
	acme, beta := h.create(b, "acme", nil), h.create(b, "beta", nil)
	for i := range 100 {
		if _, err := acme.CoreV1().ConfigMaps("default").Create(b.Context(), configMap(fmt.Sprint("map-", i)), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	median := func() time.Duration {
		var times []time.Duration
		for range 200 {
			began := time.Now()
			if _, err := beta.CoreV1().Namespaces().Get(b.Context(), "default", metav1.GetOptions{}); err != nil {
				b.Fatal(err)
			}
			times = append(times, time.Since(began))
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	median()
	alone := median()
	ctx, stop := context.WithCancel(b.Context())
	var flood sync.WaitGroup
	for range 100 {
		flood.Go(func() {
			client, err := kubernetes.NewForConfig(h.configOf("acme"))
			for err == nil {
				_, err = client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
			}
		})
	}
	median()
	flooded := median()
	stop()
	flood.Wait()
	b.ReportMetric(float64(alone.Microseconds()), "µs-alone")
	b.ReportMetric(float64(flooded.Microseconds()), "µs-flooded")
}
