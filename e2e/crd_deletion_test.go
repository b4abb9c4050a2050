package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestDefinitionIsDeletedWithItsObjects: a deleted CRD takes its objects along,
// of which one has a finalizer and holds it. CRD_OBJECTS is their number.
func TestDefinitionIsDeletedWithItsObjects(t *testing.T) {
	t.Parallel()
	objects := 300
	if text := os.Getenv("CRD_OBJECTS"); text != "" {
		var err error
		if objects, err = strconv.Atoi(text); err != nil {
			t.Fatalf("CRD_OBJECTS: %v", err)
		}
	}
	s := shared.Server(t)
	client := s.Dynamic()
	definitions := client.Resource(crdResource)
	k := newKind()
	definition := parse(t, k.definition("Namespaced"))
	if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	things := client.Resource(k.resource()).Namespace("default")
	creations, ctx := errgroup.WithContext(t.Context())
	creations.SetLimit(16)
	for i := range objects {
		thing := parse(t, k.object(fmt.Sprintf("w%d", i), ""))
		if i == 0 {
			thing.SetFinalizers([]string{"example.com/hold"})
		}
		creations.Go(func() error {
			_, err := things.Create(ctx, thing, metav1.CreateOptions{})
			return err
		})
	}
	if err := creations.Wait(); err != nil {
		t.Fatal(err)
	}
	last, err := things.List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	// The server ends a watch whose client is slow; this one continues where that has ended.
	changes, err := watchtools.NewRetryWatcherWithContext(t.Context(), last.GetResourceVersion(), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return things.Watch(ctx, options)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	deletions := make(chan int, 1)
	go func() { deletions <- countDeletions(changes, objects-1) }()
	if err := definitions.Delete(t.Context(), k.crd(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := things.Create(t.Context(), parse(t, k.object("late", "")), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("an object of a CRD that is being deleted: %v, want a refusal", err)
	}
	for left := int64(objects); left > 1; {
		harness.Eventually(t, "more objects are deleted", func() error {
			list, err := things.List(t.Context(), metav1.ListOptions{Limit: 1})
			if err != nil {
				return err
			}
			before := left
			left = int64(len(list.Items)) + ptr.Deref(list.GetRemainingItemCount(), 0)
			if left >= before {
				return fmt.Errorf("%d objects are there", left)
			}
			return nil
		})
	}
	if list, err := things.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "w0" {
		t.Fatalf("%v: %v, want the object with the finalizer", err, list)
	}
	select {
	case seen := <-deletions:
		if seen != objects-1 {
			t.Errorf("the watch ended after %d deletions of %d", seen, objects-1)
		}
	case <-time.After(harness.Patience):
		t.Errorf("the watch does not have all of %d deletions", objects-1)
	}
	if crd, err := definitions.Get(t.Context(), k.crd(), metav1.GetOptions{}); err != nil || condition(crd, "Terminating") != "True" {
		t.Errorf("while an object has a finalizer: %v: %v", err, crd)
	}
	s.Kubectl("", "patch", k.crd(), "w0", "-n", "default", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	harness.Eventually(t, "the CRD is gone", func() error {
		if _, err := definitions.Get(t.Context(), k.crd(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
	if _, err := definitions.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := things.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("the CRD that was created again has %v, %v", list, err)
	}
	if err := definitions.Delete(context.WithoutCancel(t.Context()), k.crd(), metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// countDeletions reads events until that many objects were deleted or the watch ends, and
// returns the number of deletions.
func countDeletions(w watch.Interface, want int) int {
	seen := 0
	for seen < want {
		event, ok := <-w.ResultChan()
		if !ok {
			break
		}
		if event.Type == watch.Deleted {
			seen++
		}
	}
	return seen
}

// TestSelectableFields: objects are selected by the fields that the CRD names.
func TestSelectableFields(t *testing.T) {
	t.Parallel()
	s := shared.Server(t)
	ns, k := namespace(t, s), newKind()
	definition := strings.Replace(k.definition("Namespaced"), "openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}",
		"openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}, size: {type: string}}}}}", 1) +
		"    selectableFields: [{jsonPath: .spec.color}]\n"
	define(t, s, k, definition)
	for name, color := range map[string]string{"a": "blue", "b": "red", "c": "blue"} {
		s.Kubectl(k.object(name, "spec: {size: small, color: "+color+"}"), "create", "-n", ns, "-f", "-")
	}
	if got := s.Kubectl("", "get", k.crd(), "-n", ns, "--field-selector", "spec.color=blue", "-o", "jsonpath={.items[*].metadata.name}"); got != "a c" {
		t.Errorf("selected %q, want a c", got)
	}
	refused(t, s, "", []string{"get", k.crd(), "-n", ns, "--field-selector", "spec.size=small"}, "field label not supported: spec.size")
	s.Kubectl("", "patch", k.crd(), "a", "-n", ns, "--type=merge", "-p", `{"spec":{"color":"red"}}`)
	if got := s.Kubectl("", "get", k.crd(), "-n", ns, "--field-selector", "spec.color=blue", "-o", "jsonpath={.items[*].metadata.name}"); got != "c" {
		t.Errorf("selected %q after a change, want c", got)
	}
}
