package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Upstream fact: a member fails the reads that wait while it is elected
//
// Mirrors: go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.linearizableReadLoop
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.requestCurrentIndex
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.ReadyNotify
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.publishV3
// Why: an election ends the reads that wait for it with ErrLeaderChanged. The API servers
//   are built during the election of a start, and their watch caches log that as an error.
//   Nothing exported makes a read wait for the first election.
// Gain: the log of a healthy start has no errors.
// Breaks: reads before the election fail, and the log of some starts has an error. Nothing
//   is lost: watch caches repeat their reads. TestReadsWaitForTheElection fails.

// AfterElection returns a KV whose reads first call waitElected, which returns when the
// member is elected, or with the error of the read.
func AfterElection(kv clientv3.KV, waitElected func(context.Context) error) clientv3.KV {
	return electedKV{kv, waitElected}
}

type electedKV struct {
	clientv3.KV
	waitElected func(context.Context) error
}

// Get implements [clientv3.KV].
func (k electedKV) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := k.waitElected(ctx); err != nil {
		return nil, err
	}
	return k.KV.Get(ctx, key, options...)
}
