package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestFirstObjectsReachWatchesOfEmptyTypes: two thousand watches of types without
// objects, and informers, wait when objects come and go in all types at once.
// Each watch has each event once, in order.
func TestFirstObjectsReachWatchesOfEmptyTypes(t *testing.T) {
	t.Parallel()
	const types, watches = 20, 100
	s := shared.Server(t)
	var all sync.WaitGroup
	begun, changed := sync.WaitGroup{}, make(chan struct{})
	begun.Add(types * watches)
	var definitions []string
	for range types {
		k := newKind()
		config := s.RESTConfig()
		config.QPS = -1
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(crdResource).Create(t.Context(), parse(t, k.definition("Namespaced")), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		definitions = append(definitions, k.crd())
		objects := client.Resource(k.resource())
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			t.Fatalf("%v: %v", err, list)
		}
		for i := range watches {
			options := metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: i%2 == 0}
			all.Go(func() {
				begin := sync.OnceFunc(begun.Done)
				defer begin()
				if err := followFirst(t.Context(), objects, options, begin); err != nil {
					t.Errorf("%s: %v", k.name, err)
				}
			})
		}
		all.Go(func() {
			<-changed
			for _, name := range []string{"one", "two"} {
				object := parse(t, k.object(name, ""))
				if _, err := objects.Namespace("default").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
					t.Errorf("create %s %s: %v", k.name, name, err)
				}
				if err := objects.Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Errorf("delete %s %s: %v", k.name, name, err)
				}
			}
		})
	}
	begun.Wait()
	close(changed)
	all.Wait()
	for _, name := range definitions {
		if err := s.Dynamic().Resource(crdResource).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// followFirst compares what a watch gets when the objects one and two come and
// go. It calls begun when it watches.
func followFirst(ctx context.Context, objects dynamic.ResourceInterface, options metav1.ListOptions, begun func()) error {
	watcher, err := objects.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	begun()
	want := []string{"ADDED one", "DELETED one", "ADDED two", "DELETED two"}
	var got []string
	for len(got) < len(want) {
		event, open := <-watcher.ResultChan()
		switch {
		case !open:
			return fmt.Errorf("the watch ends after %q", got)
		case event.Type == watch.Error:
			return fmt.Errorf("after %q: %v", got, event.Object)
		case event.Type != watch.Bookmark:
			got = append(got, string(event.Type)+" "+event.Object.(*unstructured.Unstructured).GetName())
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

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
