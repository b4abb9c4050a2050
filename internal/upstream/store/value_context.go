package store

import "k8s.io/apiserver/pkg/storage/value"

// Upstream fact: what an encrypted value is bound to
//
// Mirrors: k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString
//   k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString.AuthenticatedData
//   k8s.io/apiserver/pkg/storage/etcd3.store.Get
// Why: a value is decrypted only together with the key of etcd that it was encrypted for,
//   and the type that passes the key is not exported.
// Gain: rotations, the garbage collector and `history` read encrypted values without the
//   store of their type.
// Breaks: encrypted values cannot be decrypted, with an error. TestRotate fails.

// ValueContext returns what the transformers of Kubernetes need to decrypt or encrypt the
// value that etcd has under key.
func ValueContext(key string) value.Context { return value.DefaultContext(key) }
