package fleet

import (
	"context"
	"errors"
	"fmt"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Authorities returns the stored config map in which servers have published their
// authorities, with its key: nil if none has. Prefix is that of the objects. The value is
// as it is in etcd, perhaps encrypted.
func Authorities(ctx context.Context, client clientv3.KV, prefix string) (key string, value []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	key = store.NamespaceKeys(prefix, "configmaps", metav1.NamespaceSystem) + kube.AuthenticationConfigMap
	answer, err := client.Get(ctx, key)
	if err != nil {
		return key, nil, fmt.Errorf("read the authorities of other servers in etcd (%s): %w", key, err)
	}
	if len(answer.Kvs) == 0 {
		return key, nil, nil
	}
	return key, answer.Kvs[0].Value, nil
}

// ErrReserved means that another server has begun to make authorities for the same objects
// less than a minute ago, and has not published them yet.
var ErrReserved = errors.New("another server makes its authorities for this etcd")

// ReserveIdentity reports whether this server may make authorities and keys for the objects
// below prefix: no server has published its own. Then other servers get [ErrReserved] for a
// minute, in which this one publishes them.
func ReserveIdentity(ctx context.Context, client *clientv3.Client, prefix string) (bool, error) {
	_, published, err := Authorities(ctx, client, prefix)
	if err != nil || published != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	lease, err := client.Grant(ctx, int64(lifetime.Seconds()))
	if err != nil {
		return false, fmt.Errorf("make a lease: %w", err)
	}
	key := path.Join("/kube-hyper-mini/new-identity", prefix)
	put, err := kubernetesClient(client).Kubernetes.OptimisticPut(ctx, key, []byte("reserved"), 0,
		kubernetes.PutOptions{LeaseID: lease.ID})
	if err != nil {
		return false, fmt.Errorf("put %s: %w", key, err)
	}
	if !put.Succeeded {
		return false, ErrReserved
	}
	return true, nil
}
