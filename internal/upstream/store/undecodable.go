package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/etcd3"
)

// Upstream fact: the error about a stored object that cannot be decoded lacks its key
//
// Mirrors: k8s.io/apiserver/pkg/storage/etcd3.store.GetList#DecodeListItem
// Why: one such object stops the lists of its type, and with them each start. The decoder
//   has the revision of the object, by which etcd finds the key.
// Gain: no optimisation: the error names the object.
// Breaks: the error is "unexpected EOF". TestUndecodableObject fails.

// Undecodable is called with the key of an object that a list could not decode.
type Undecodable func(key string, err error)

// namingDecoder adds the key to the errors of lists.
type namingDecoder struct {
	etcd3.Decoder
	kv     clientv3.KV
	below  string // the beginning of all keys of the resource
	report Undecodable
}

// DecodeListItem implements [etcd3.Decoder].
func (d *namingDecoder) DecodeListItem(ctx context.Context, data []byte, revision uint64,
	newItem func() runtime.Object) (runtime.Object, error) {
	obj, err := d.Decoder.DecodeListItem(ctx, data, revision, newItem)
	if err == nil {
		return obj, nil
	}
	found, findErr := d.kv.Get(ctx, d.below, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithMinModRev(int64(revision)), clientv3.WithMaxModRev(int64(revision)))
	if findErr != nil || len(found.Kvs) == 0 {
		return nil, err // it has been deleted, or written again
	}
	key := string(found.Kvs[0].Key)
	d.report(key, err)
	return nil, fmt.Errorf("decode the object with the key %q: %w", key, err)
}
