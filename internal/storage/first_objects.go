package storage

import (
	"context"
	"fmt"
	"path"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// objectsInTransaction is less than the number of operations that etcd takes in a transaction
// (embed.DefaultMaxTxnOps).
const objectsInTransaction = 100

// FirstObject is an object that a new server has.
type FirstObject struct {
	Stores   generic.RESTOptionsGetter
	Resource schema.GroupResource
	Object   runtime.Object
}

// IsNew reports whether this is an embedded member without any object.
func (s *Storage) IsNew(ctx context.Context) (bool, error) {
	if !s.connection.Single {
		return false, nil
	}
	stored, err := s.CountAll(ctx)
	return stored == 0, err
}

// CreateFirst stores the objects of a new server without requests, many in a transaction, and sets
// their UIDs and times. Nothing else may write meanwhile.
func (s *Storage) CreateFirst(ctx context.Context, objects []FirstObject) error {
	var puts []clientv3.Op
	for _, first := range objects {
		put, err := encodeFirst(ctx, first)
		if err != nil {
			return fmt.Errorf("encode one of the first %s: %w", first.Resource, err)
		}
		puts = append(puts, put)
	}
	kv := s.connection.GatedKV()
	for some := range slices.Chunk(puts, objectsInTransaction) {
		if _, err := kv.Txn(ctx).Then(some...).Commit(); err != nil {
			if ctx.Err() != nil { // a stop, for which etcd has an error of its own
				err = context.Cause(ctx)
			}
			return fmt.Errorf("write the first objects: %w", err)
		}
	}
	return nil
}

// DeleteStored deletes an object, if it exists, without a request. Nothing else may write meanwhile.
func (s *Storage) DeleteStored(ctx context.Context, resource schema.GroupResource, namespace, name string) error {
	key := store.NamespaceKeys(s.config.Prefix, s.prefix(resource), namespace) + name
	if _, err := s.connection.GatedKV().Delete(ctx, key); err != nil {
		return fmt.Errorf("delete %s %s/%s: %w", resource, namespace, name, err)
	}
	return nil
}

// encodeFirst returns the operation that stores the object.
func encodeFirst(ctx context.Context, first FirstObject) (clientv3.Op, error) {
	options, err := first.Stores.GetRESTOptions(first.Resource, first.Object)
	if err != nil {
		return clientv3.Op{}, err
	}
	object, err := meta.Accessor(first.Object)
	if err != nil {
		return clientv3.Op{}, err
	}
	rest.FillObjectMetaSystemFields(object)
	value, err := runtime.Encode(options.StorageConfig.Codec, first.Object)
	if err != nil {
		return clientv3.Op{}, err
	}
	key := path.Join("/", options.StorageConfig.Prefix, options.ResourcePrefix, object.GetNamespace(), object.GetName())
	value, err = store.TransformerOf(options.StorageConfig).TransformToStorage(ctx, value, store.ValueContext(key))
	if err != nil {
		return clientv3.Op{}, err
	}
	return clientv3.OpPut(key, string(value)), nil
}
