package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// testNamespaces has one terminating namespace, "old".
func testNamespaces(t *testing.T, cfg Config) (*namespaces, *corev1.Namespace) {
	t.Helper()
	now := metav1.Now()
	old := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "old", UID: "1", DeletionTimestamp: &now},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if err := indexer.Add(old); err != nil {
		t.Fatal(err)
	}
	return &namespaces{
		env:         &environment{config: cfg},
		loop:        reconcile.New(reconcile.Config[string]{MinRetry: time.Second, MaxRetry: time.Second}),
		lister:      listers.NewNamespaceLister(indexer),
		terminating: map[types.UID]time.Time{},
	}, old
}

// TestGracePeriodWithSeveralServers: other API servers get time to see that a namespace is
// terminating, and a server that is alone does not wait.
func TestGracePeriodWithSeveralServers(t *testing.T) {
	alone := func(is bool, err error) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) { return is, err }
	}
	for name, test := range map[string]struct {
		alone     func(context.Context) (bool, error)
		waits     bool
		wantError bool
	}{
		"alone":        {alone(true, nil), false, false},
		"with others":  {alone(false, nil), true, false},
		"unknown":      {nil, true, false},
		"not readable": {alone(false, errors.New("etcd is away")), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, old := testNamespaces(t, Config{Alone: test.alone})
			n.enqueue(old)
			left, err := n.graceLeft(t.Context(), "old")
			if left > 0 != test.waits || (err != nil) != test.wantError {
				t.Errorf("it waits for %s, %v", left, err)
			}
			n.forget(old)
			if left, err = n.graceLeft(t.Context(), "old"); left > 0 || (err != nil) != test.wantError {
				t.Errorf("after the end it waits for %s, %v", left, err)
			}
		})
	}
}

// TestNamespaceDeletionWaitsForDiscovery: without an answer, a type with objects in the
// namespace may be unknown, and the namespace must not be finalized.
func TestNamespaceDeletionWaitsForDiscovery(t *testing.T) {
	s := newServer("v1")
	n, old := testNamespaces(t, Config{Types: remoteOnly{}})
	n.env.types = testDiscoverer(s)
	client := fake.NewClientset(old)
	n.client, n.objects = client, metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme())
	query(t, n.env.types)
	n.env.types.changed()
	s.setDown(errors.New("connection refused"))
	if err := n.delete(t.Context(), "old"); err == nil {
		t.Error("it is deleted while discovery does not answer")
	}
	if got := client.Actions(); len(got) != 0 {
		t.Errorf("requests while discovery does not answer: %v", got)
	}
}
