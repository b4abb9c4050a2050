package store

import (
	"bytes"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
)

// Upstream fact: in which forms objects are stored
//
// Mirrors: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.protoEncodingPrefix
//   k8s.io/apimachinery/pkg/runtime/serializer/protobuf.Serializer.Decode
//   k8s.io/apimachinery/pkg/runtime/serializer/protobuf.Serializer.RecognizesData
//   k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString
//   k8s.io/apiextensions-apiserver/pkg/cmd/server/options.NewCRDRESTOptionsGetter
// Why: stored values are in protobuf, JSON or CBOR, and only their first bytes show in
//   which. The garbage collector and the quota controller need the metadata of all custom
//   resources, and nothing else needs the types that no client uses.
// Gain: schemas of stored CRDs are skipped before they are decoded, and versions of objects
//   are read from the journal. A type with objects that no client uses has no serving
//   machinery, which takes 0.8 MB and 19 goroutines of each type in use (bench, crds).
// Breaks: CRDs are decoded with their schemas, `history` finds no objects of built-in
//   types, or objects are not collected. TestStoredDefinitionsAreDecodedWithoutSchemas,
//   TestFeed and TestFeedOfOtherEncodings fail.

// ProtobufPrefix begins the values that Kubernetes stores in protobuf.
const ProtobufPrefix = "k8s\x00"

// IsProtobuf reports whether a stored value, in plain text, is in protobuf.
func IsProtobuf(plain []byte) bool { return bytes.HasPrefix(plain, []byte(ProtobufPrefix)) }

// storedMetadata is the part of the metadata that [DecodeMetadata] reads. Managed fields and
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

// IsJSON reports whether a stored custom resource, decrypted, is in JSON. Others are in
// CBOR.
func IsJSON(value []byte) bool { return bytes.HasPrefix(value, []byte("{")) }

// DecodeMetadata reads the metadata of a custom resource in JSON, without managed fields,
// labels and annotations. The revision is that of its key: the value has none.
func DecodeMetadata(value []byte, revision int64) (*metav1.PartialObjectMetadata, error) {
	var object storedMetadata
	if err := json.Unmarshal(value, &object); err != nil {
		return nil, err
	}
	m := &object.Metadata
	return &metav1.PartialObjectMetadata{TypeMeta: object.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, Generation: m.Generation, ResourceVersion: strconv.FormatInt(revision, 10),
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
		OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers,
	}}, nil
}
