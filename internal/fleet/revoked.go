package fleet

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// resync bounds the time between two reads of the revoked keys.
const resync = time.Minute

// RevokedKeys are the client keys that all servers of one etcd refuse. etcd has a key
// for each, with the fingerprint as its name and a remark as its value. It is safe for
// concurrent use.
type RevokedKeys struct {
	client *kubernetes.Client
	prefix string
}

// NewRevokedKeys returns the revoked keys for the objects below prefix.
func NewRevokedKeys(client *clientv3.Client, prefix string) *RevokedKeys {
	return &RevokedKeys{client: kubernetesClient(client), prefix: path.Join("/kube-hyper-mini/revoked-keys", prefix) + "/"}
}

// List returns the remarks by fingerprint, and the revision of etcd that has them.
func (r *RevokedKeys) List(ctx context.Context) (keys map[string]string, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list, err := r.client.Kubernetes.List(ctx, r.prefix, kubernetes.ListOptions{})
	if err != nil {
		return nil, 0, fmt.Errorf("read the revoked keys in etcd: %w", err)
	}
	keys = map[string]string{}
	for _, kv := range list.Kvs {
		if nested(string(kv.Key), r.prefix) {
			continue
		}
		keys[strings.TrimPrefix(string(kv.Key), r.prefix)] = string(kv.Value)
	}
	return keys, list.Revision, nil
}

// Add adds keys, with a remark by fingerprint. Keys that are in etcd stay as they are.
func (r *RevokedKeys) Add(ctx context.Context, keys map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for fingerprint, remark := range keys {
		if _, err := r.client.Kubernetes.OptimisticPut(ctx, r.prefix+fingerprint, []byte(remark), 0, kubernetes.PutOptions{}); err != nil {
			return fmt.Errorf("add a revoked key to etcd: %w", err)
		}
	}
	return nil
}

// Await returns when the keys have changed after the revision, and at the latest after
// a minute: a watch may miss a change.
func (r *RevokedKeys) Await(ctx context.Context, revision int64) error {
	waiting, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), resync)
	defer cancel()
	response := <-r.client.Watch(waiting, r.prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1))
	if err := response.Err(); err != nil && waiting.Err() == nil {
		return fmt.Errorf("watch the revoked keys in etcd: %w", err)
	}
	return nil
}
