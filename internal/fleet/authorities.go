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

// ErrReserved means that another server has begun to make authorities for the same objects
// less than a minute ago, and has not published them yet.
var ErrReserved = errors.New("another server makes its authorities for this etcd")

// ReserveIdentity reports whether this server may make authorities and keys for the objects
// below prefix: no server has published its own. Then other servers get [ErrReserved] for a
// minute, in which this one publishes them.
func ReserveIdentity(ctx context.Context, client *clientv3.Client, prefix string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	published := store.NamespaceKeys(prefix, "configmaps", metav1.NamespaceSystem) + kube.AuthenticationConfigMap
	switch answer, err := client.Get(ctx, published); {
	case err != nil:
		return false, fmt.Errorf("read the authorities of other servers in etcd (%s): %w", published, err)
	case len(answer.Kvs) > 0:
		return false, nil
	}
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
