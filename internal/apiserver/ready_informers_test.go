package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// TestReadyInformers: informers that are started later do not count for readiness.
func TestReadyInformers(t *testing.T) {
	factory := &readyInformers{SharedInformerFactory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	stop, now := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	close(now)
	factory.Core().V1().Namespaces().Informer()
	factory.Start(stop)
	if synced := factory.WaitForCacheSync(stop); len(synced) != 1 {
		t.Errorf("there are %v, want that of namespaces", synced)
	}
	factory.settle()
	factory.Core().V1().Endpoints().Informer()
	factory.Start(stop)
	if synced := factory.WaitForCacheSync(now); len(synced) != 1 {
		t.Errorf("there are %v, want that of namespaces only", synced)
	}
}

// TestParametersOfPolicies: policies read config maps and secrets with informers of their own.
func TestParametersOfPolicies(t *testing.T) {
	factory := &readyInformers{SharedInformerFactory: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	for resource, shared := range map[string]bool{"configmaps": false, "secrets": false, "namespaces": true} {
		if _, err := factory.ForResource(corev1.SchemeGroupVersion.WithResource(resource)); (err == nil) != shared {
			t.Errorf("%s: %v", resource, err)
		}
	}
}
