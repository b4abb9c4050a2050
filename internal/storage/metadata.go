package storage

import (
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// decode reads the metadata of a stored object.
func (f *Feed) decode(ctx context.Context, stored *mvccpb.KeyValue) (*metav1.PartialObjectMetadata, error) {
	text := stored.Value
	var err error
	if f.decrypt != nil {
		if text, _, err = f.decrypt.TransformFromStorage(ctx, text, store.ValueContext(string(stored.Key))); err != nil {
			return nil, fmt.Errorf("decrypt %s of etcd: %w", stored.Key, err)
		}
	}
	if !store.IsJSON(text) {
		if text, err = f.asJSON(text); err != nil {
			return nil, fmt.Errorf("decode %s of etcd: %w", stored.Key, err)
		}
	}
	object, err := store.DecodeMetadata(text, stored.ModRevision)
	if err != nil {
		return nil, fmt.Errorf("decode %s of etcd: %w", stored.Key, err)
	}
	return object, nil
}

// asJSON converts an object that is stored in another encoding, such as CBOR.
func (f *Feed) asJSON(data []byte) ([]byte, error) {
	object := &unstructured.Unstructured{}
	if err := runtime.DecodeInto(f.codec, data, object); err != nil {
		return nil, err
	}
	return object.MarshalJSON()
}

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }
