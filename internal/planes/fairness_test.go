package planes

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRequestsInFlight: a control plane with too many requests refuses further ones, and others
// do not.
func TestRequestsInFlight(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.create(t, "acme", nil)
	beta := h.create(t, "beta", nil)
	acme := h.with(t, "acme", h.administrator)
	p := h.known(t, "acme")
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
