package store

import "bytes"

// Upstream fact: in which forms objects are stored
//
// Mirrors: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.protoEncodingPrefix
//   k8s.io/apimachinery/pkg/runtime/serializer/protobuf.Serializer.Decode
//   k8s.io/apimachinery/pkg/runtime/serializer/protobuf.Serializer.RecognizesData
//   k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString
// Why: stored values are in protobuf, JSON or CBOR, and only their first bytes show in
//   which.
// Gain: schemas of stored CRDs are skipped before they are decoded, and versions of objects
//   are read from the journal.
// Breaks: CRDs are decoded with their schemas, or `history` finds no objects of built-in
//   types. TestStoredDefinitionsAreDecodedWithoutSchemas fails.

// ProtobufPrefix begins the values that Kubernetes stores in protobuf.
const ProtobufPrefix = "k8s\x00"

// IsProtobuf reports whether a stored value, in plain text, is in protobuf.
func IsProtobuf(plain []byte) bool { return bytes.HasPrefix(plain, []byte(ProtobufPrefix)) }
