package kube

import (
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// isClosed reports whether a channel is closed.
func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// TestPolicyInformers: the plugins of policies check their informers once, when they are
// filled, and have compiled the policies when each of them has added its event handler.
func TestPolicyInformers(t *testing.T) {
	t.Parallel()
	p := NewPolicyInformers(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	policies := p.Admissionregistration().V1()
	plugins := []cache.SharedIndexInformer{policies.ValidatingAdmissionPolicies().Informer(), policies.MutatingAdmissionPolicies().Informer(), policies.ValidatingAdmissionPolicies().Informer()}
	p.Start(t.Context().Done())
	p.WaitForCacheSync(t.Context().Done())
	checked := make(chan bool)
	for _, informer := range plugins {
		go func() { checked <- informer.HasSynced() }()
	}
	select {
	case <-checked:
		t.Fatal("a plugin has not waited")
	default:
	}
	p.Filled()
	p.Filled()
	for range plugins {
		if !<-checked {
			t.Error("an informer has not synced")
		}
	}
	for _, informer := range plugins {
		if isClosed(p.Compiled()) {
			t.Error("ready before all plugins have compiled the policies")
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
			t.Fatal(err)
		}
	}
	if !isClosed(p.Compiled()) {
		t.Error("not ready")
	}
	if later := policies.ValidatingAdmissionPolicies().Informer(); !later.HasSynced() {
		t.Error("an informer that is made later has not synced")
	}
}
