package store

import (
	"context"
	"errors"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/kubernetes/scheme"
)

// noStore is a store that cannot be read.
type noStore struct{ storage.Interface }

var errNoStore = errors.New("it cannot be read")

func (noStore) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	return errNoStore
}

func (noStore) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, errNoStore
}

func (noStore) GetCurrentResourceVersion(context.Context) (uint64, error) { return 0, errNoStore }

func (noStore) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

func (noStore) CompactRevision() int64 { return 0 }

// TestHistoryOfLargeObjects: a watch cache keeps few events of large objects, and many again
// when they become small.
func TestHistoryOfLargeObjects(t *testing.T) {
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: noStore{}, Versioner: storage.APIObjectVersioner{}, GroupResource: schema.GroupResource{Resource: "configmaps"},
		EventsHistoryWindow: cacher.DefaultEventFreshDuration, ResourcePrefix: "/configmaps",
		NewFunc:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewListFunc: func() runtime.Object { return &corev1.ConfigMapList{} },
		Codec:       scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	h := &sizedHistory{Transformer: identity.NewEncryptCheckTransformer()}
	h.bound(c)
	for _, test := range []struct{ size, low, high int64 }{{1 << 20, 100, 300}, {100, maxEvents / 2, maxEvents}} {
		for range 1000 {
			if _, _, err := h.TransformFromStorage(t.Context(), make([]byte, test.size), nil); err != nil {
				t.Fatal(err)
			}
		}
		bound := reflect.ValueOf(c).Elem().FieldByName("watchCache").Elem().FieldByName("upperBoundCapacity").Int()
		if bound < test.low || bound > test.high {
			t.Errorf("the history has up to %d events of %d bytes", bound, test.size)
		}
	}
}
