package manifests

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// staticMapper has the types that it was made with.
type staticMapper struct{ meta.RESTMapper }

func (staticMapper) Reset() {}

// storingApplier returns an applier of dir that prunes, and the config maps that it
// deletes. Its API server stores what is applied.
func storingApplier(dir string) (a *Applier, deleted chan string) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	client, stored := fake.NewSimpleDynamicClient(runtime.NewScheme()), map[string]*unstructured.Unstructured{}
	deleted = make(chan string, 100)
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action := action.(type) {
		case clienttesting.PatchActionImpl:
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(action.Patch); err != nil {
				return true, nil, err
			}
			object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply}})
			stored[action.Name] = object
			return true, object, nil
		case clienttesting.DeleteActionImpl:
			deleted <- action.Name
			delete(stored, action.Name)
			return true, nil, nil
		case clienttesting.GetActionImpl:
			if object := stored[action.Name]; object != nil {
				return true, object, nil
			}
			return true, nil, apierrors.NewNotFound(configMaps.GroupResource(), action.Name)
		}
		return false, nil, nil
	})
	return &Applier{Config: Config{Dir: dir, Prune: true, Log: slog.New(slog.DiscardHandler)}, client: client,
		mapper: staticMapper{mapper}}, deleted
}

// TestReplacedFileIsNotPruned: a manifest that is empty or gone for a moment, as while a
// program writes it, is not a removed one.
func TestReplacedFileIsNotPruned(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.yaml": configMap("a"), "b.yaml": configMap("b")})
	file := filepath.Join(dir, "a.yaml")
	synctest.Test(t, func(t *testing.T) {
		a, deleted := storingApplier(dir)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.follow(ctx, func(result applied) {
				if len(result.failed) > 0 {
					t.Error(result.failed)
				}
			})
		}()
		time.Sleep(10 * scanInterval)
		for _, incomplete := range []func() error{
			func() error { return os.WriteFile(file, nil, 0o600) },
			func() error { return os.Remove(file) },
		} {
			if err := incomplete(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(scanInterval + scanInterval/2)
			write(t, dir, map[string]string{"a.yaml": configMap("a")})
			time.Sleep(10 * scanInterval)
		}
		if len(deleted) > 0 {
			t.Errorf("deleted: %s", <-deleted)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if name := <-deleted; name != "a" {
			t.Errorf("of a removed file, deleted: %s", name)
		}
		cancel()
		<-ended
	})
}

// TestFailedRoundIsRecorded: an object that was first applied in a round with a failure is pruned by
// a later round, and none by the round that fails.
func TestFailedRoundIsRecorded(t *testing.T) {
	for name, failing := range map[string]string{
		"unreadable": "a: [", "refused": "apiVersion: v1\nkind: Thing\nmetadata:\n  name: b\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, deleted := storingApplier(dir)
			round := func() []error {
				files, err := scan(os.DirFS(dir))
				if err != nil {
					t.Fatal(err)
				}
				return a.round(t.Context(), files, true).failed
			}
			for _, removed := range []string{"a.yaml", "c.yaml"} {
				write(t, dir, map[string]string{"a.yaml": configMap("a"), "b.yaml": failing, "c.yaml": configMap("c")})
				for range 2 {
					if errs := round(); len(errs) != 1 {
						t.Fatalf("failures: %v", errs)
					}
				}
				if err := os.Remove(filepath.Join(dir, removed)); err != nil {
					t.Fatal(err)
				}
				if errs := round(); len(errs) != 1 || len(deleted) > 0 {
					t.Fatalf("failures: %v; deleted %d objects", errs, len(deleted))
				}
				write(t, dir, map[string]string{"b.yaml": configMap("b")})
				if errs := round(); len(errs) > 0 || len(deleted) != 1 {
					t.Fatalf("failures: %v; deleted %d objects, want 1", errs, len(deleted))
				}
				if got := <-deleted + ".yaml"; got != removed {
					t.Errorf("deleted the object of %s, want %s", got, removed)
				}
				write(t, dir, map[string]string{"a.yaml": configMap("a"), "c.yaml": configMap("c")})
			}
		})
	}
}
