package e2e

import (
	"errors"
	"sync"
	"testing"

	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestClientsOfTypesWithoutObjects: kubectl's lists and watches, and an informer.
func TestClientsOfTypesWithoutObjects(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	k := newKind()
	s.Kubectl(k.definition("Namespaced"), "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl("", "delete", "crd", k.crd(), "--wait=false") })
	harness.Contains(t, s.Kubectl("", "get", k.crd()), "No resources found")
	harness.Contains(t, s.Kubectl("", "get", k.crd(), "-o", "json"), `"items": []`)
	harness.Contains(t, s.Kubectl("", "get", "--raw", "/apis/"+k.group+"/v1/"+k.plural), `"kind":"`+k.name+`List"`, `"items":[]`)
	cluster := newKind()
	s.Kubectl(cluster.definition("Cluster"), "create", "-f", "-")
	t.Cleanup(func() { s.Kubectl("", "delete", "crd", cluster.crd(), "--wait=false") })
	if out, err := s.TryKubectl("", "get", cluster.crd(), "--field-selector=metadata.namespace=x"); err == nil {
		t.Errorf("a selector of the namespace of a cluster-scoped type is not refused: %s", out)
	}

	factory := dynamicinformer.NewDynamicSharedInformerFactory(s.Dynamic(), 0)
	informer := factory.ForResource(k.resource()).Informer()
	stop := make(chan struct{})
	defer factory.Shutdown()
	defer close(stop)
	factory.Start(stop)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}
	var waits sync.WaitGroup
	waits.Go(func() {
		if out, err := s.TryKubectl("", "wait", "--for=create", "--timeout=5m", k.crd()+"/one", "-n", "default"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	custom(t, s.Dynamic().Resource(k.resource()).Namespace("default"), k, "one")
	waits.Wait()
	harness.Eventually(t, "the informer to have the object", func() error {
		if len(informer.GetStore().ListKeys()) != 1 {
			return errors.New("it has none")
		}
		return nil
	})
	harness.Contains(t, s.Kubectl("", "get", k.crd(), "-n", "default"), "NAME", "one")
}
