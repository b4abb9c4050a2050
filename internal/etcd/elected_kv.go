package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// electedKV delays reads until the member is ready: etcd refuses a read during which the
// member is elected, and the watch caches of the API servers log that as an error.
type electedKV struct {
	clientv3.KV
	member *Member
}

// Get implements [clientv3.KV].
func (k electedKV) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	select {
	case <-k.member.etcd.Server.ReadyNotify():
	default:
		if err := k.member.WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	return k.KV.Get(ctx, key, options...)
}
