package store

import (
	"context"
	"path"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Upstream fact: how Kubernetes checks that etcd is healthy
//
// Mirrors: k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ProberMonitor.Probe
// Why: the health checks of Kubernetes dial etcd by its address.
// Gain: /livez and /readyz report whether the embedded etcd answers.
// Breaks: the checks differ from those of kube-apiserver. TestHealthAndStatus fails.

// Probe reads a key, which need not exist, through the quorum.
func Probe(ctx context.Context, client *clientv3.Client, prefix string) error {
	_, err := client.Get(ctx, path.Join("/", prefix, "health"))
	return err
}
