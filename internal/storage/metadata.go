package storage

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Upstream fact: how a custom resource is stored
//
// Mirrors: k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString
//   k8s.io/apiextensions-apiserver/pkg/cmd/server/options.NewCRDRESTOptionsGetter
// Why: the garbage collector and the quota controller need the metadata of all objects,
//   and nothing else needs the types that no client uses.
// Gain: a type with objects that no client uses has no serving machinery.
// Breaks: objects are not collected, and the log says that they cannot be decoded.
//   TestFeed and TestFeedOfOtherEncodings fail.

// storedMetadata is the part of the metadata that a feed has. Managed fields and
// annotations may be larger than the rest of an object.
type storedMetadata struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name                       string                  `json:"name"`
		Namespace                  string                  `json:"namespace"`
		UID                        types.UID               `json:"uid"`
		Generation                 int64                   `json:"generation"`
		CreationTimestamp          metav1.Time             `json:"creationTimestamp"`
		DeletionTimestamp          *metav1.Time            `json:"deletionTimestamp"`
		DeletionGracePeriodSeconds *int64                  `json:"deletionGracePeriodSeconds"`
		OwnerReferences            []metav1.OwnerReference `json:"ownerReferences"`
		Finalizers                 []string                `json:"finalizers"`
	} `json:"metadata"`
}

// decode reads the metadata of a stored object.
func (f *Feed) decode(ctx context.Context, stored *mvccpb.KeyValue) (*metav1.PartialObjectMetadata, error) {
	text := stored.Value
	var err error
	if f.decrypt != nil {
		if text, _, err = f.decrypt.TransformFromStorage(ctx, text, store.ValueContext(string(stored.Key))); err != nil {
			return nil, fmt.Errorf("decrypt %s of etcd: %w", stored.Key, err)
		}
	}
	if !bytes.HasPrefix(text, []byte("{")) {
		if text, err = f.asJSON(text); err != nil {
			return nil, fmt.Errorf("decode %s of etcd: %w", stored.Key, err)
		}
	}
	var object storedMetadata
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("decode %s of etcd: %w", stored.Key, err)
	}
	m := &object.Metadata
	return &metav1.PartialObjectMetadata{TypeMeta: object.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Generation: m.Generation, ResourceVersion: formatRevision(stored.ModRevision),
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers,
	}}, nil
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
