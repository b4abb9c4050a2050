package controlplane

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	clientrest "k8s.io/client-go/rest"
)

// TestVirtualObjectsAreCopied: the encoder, which writes to what Get returns, does not get the program's
// own objects.
func TestVirtualObjectsAreCopied(t *testing.T) {
	type object = Object[struct{}, struct{}]
	kept := []object{{ObjectMeta: metav1.ObjectMeta{Name: "one"}}}
	r := Kind[struct{}, struct{}]{Group: "sea.example.com", Version: "v1", Kind: "Boat",
		List: func(context.Context, *clientrest.Config, string) ([]object, error) { return kept, nil }}.Resource()
	storage, err := r.Storage(StorageEnvironment{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := storage.(rest.Getter).Get(t.Context(), "one", &metav1.GetOptions{})
	if err != nil || got.(*object).Name != "one" || got.(*object) == &kept[0] {
		t.Errorf("got %v, %v", got, err)
	}
}
