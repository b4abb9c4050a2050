package fleet

import (
	"context"
	"fmt"
	"path"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// Name returns a name that all servers with the objects below prefix have in common, and
// those of other etcd clusters do not. A cluster that is restored from a snapshot with
// other members has another one.
func Name(ctx context.Context, client *clientv3.Client, prefix string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	key := path.Join("/kube-hyper-mini/identity", prefix)
	_, err := kubernetesClient(client).Kubernetes.OptimisticPut(ctx, key,
		[]byte(uuid.NewString()), 0, kubernetes.PutOptions{})
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, err)
	}
	response, err := client.Get(ctx, key)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", key, err)
	}
	if len(response.Kvs) == 0 {
		return "", fmt.Errorf("get %s: it was removed", key)
	}
	return fmt.Sprintf("etcd-%s-%x", response.Kvs[0].Value, response.Header.ClusterId), nil
}
