package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestDeleted(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	for name, obj := range map[string]any{"seen": namespace, "missed": cache.DeletedFinalStateUnknown{Key: "default", Obj: namespace}} {
		if got, ok := Deleted[*corev1.Namespace](obj); !ok || got != namespace {
			t.Errorf("%s: got %v, %t", name, got, ok)
		}
		if got, ok := Deleted[*corev1.Secret](obj); ok || got != nil {
			t.Errorf("%s, as another type: got %v, %t", name, got, ok)
		}
	}
}
