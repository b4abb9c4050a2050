package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// TestNoPods: the informer is synced, and has no pods.
func TestNoPods(t *testing.T) {
	pods := NewNoPods()
	go pods.Informer().RunWithContext(t.Context())
	if !cache.WaitForCacheSync(t.Context().Done(), pods.Informer().HasSynced) {
		t.Fatal("it is not synced")
	}
	if list, err := pods.Lister().List(labels.Everything()); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
}
