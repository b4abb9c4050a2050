package etcd

import (
	"context"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/raft/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// Upstream fact: a member without listeners, and its election
//
// Mirrors: go.etcd.io/etcd/server/v3/embed.StartEtcd
//   go.etcd.io/etcd/server/v3/embed.Config.Validate
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.adjustTicks
//   go.etcd.io/etcd/server/v3/etcdserver.raftNodeConfig
//   go.etcd.io/etcd/server/v3/etcdserver.raftNode.start#r.ticker.C
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.compactRaftLog
//   go.etcd.io/etcd/server/v3/etcdserver/api/v3client.New
//   go.etcd.io/raft/v3.raft.hup
//   go.etcd.io/raft/v3.raft.hasUnappliedConfChanges
//   go.etcd.io/raft/v3.raft.tickHeartbeat
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.linearizableReadLoop
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.requestCurrentIndex
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.ReadyNotify
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.publishV3
// Why: only this process uses the member, so that it needs no port. The advertised URLs
//   must have a host and a port, at which nothing listens. Its ticks elect a member after 0.5
//   to 1 s; a single one can be elected when raft has applied its log. Not before: raft would
//   look for changes of the membership in entries that etcd may have dropped from memory, and
//   panic ("error scanning unapplied entries"). An election fails the reads that wait for it
//   with ErrLeaderChanged: the watch caches of the API servers would log that as an error.
//   Afterwards ticks have no effect: there is no follower to send heartbeats to, and no other
//   member to elect.
// Gain: etcd is not reachable from the network. It is elected while the API servers are built:
//   with the ticks of etcd, a cold start takes 0.72 s instead of 0.19 s. With rare ticks an
//   idle process takes 0.87 % of a core instead of 0.98 % (bench, start and idle; trials). The
//   log of a healthy start has no errors.
// Breaks: the member does not start; its raft node is not found, and each start takes seconds
//   longer and logs a warning; or the log of some starts has an error. Tests: TestElect,
//   TestField, TestReadsWaitForTheElection.

const (
	// MemberName is the name of the member.
	MemberName = "kube-hyper-mini"
	// Advertised is the URL of the member: raft names it by host:port. Nothing listens
	// there.
	Advertised     = "http://" + advertisedHost
	advertisedHost = "kube-hyper-mini.invalid:2380"

	tickMillis    = 500
	electionTicks = 5 // the least that etcd accepts
	// appliedPoll is the time between two looks at what raft has applied.
	appliedPoll = time.Millisecond
)

// BecomeSingleMember makes the configuration that of the only member of a cluster, which has no
// listener and whose ticks are rare: [Elect] elects it. The advertised URL is stored in the data:
// it must not change.
func BecomeSingleMember(c *embed.Config) {
	advertised := url.URL{Scheme: "http", Host: advertisedHost}
	c.Name = MemberName
	c.TickMs, c.ElectionMs = tickMillis, electionTicks*tickMillis
	c.ListenPeerUrls, c.ListenClientUrls, c.ListenClientHttpUrls, c.ListenMetricsUrls = nil, nil, nil, nil
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{advertised}, []url.URL{advertised}
	c.InitialCluster = MemberName + "=" + Advertised
}

// Elect elects the only member of a cluster, which has started, as soon as it has applied its log.
// Without it, or if it returns an error, ticks elect it some seconds later.
func Elect(ctx context.Context, server *etcdserver.EtcdServer) error {
	node, err := upstream.Field[raft.Node](server, "r", "raftNodeConfig", "Node")
	if err != nil {
		return err
	}
	ticker := time.NewTicker(appliedPoll)
	defer ticker.Stop()
	for status := (*node).Status(); status.Applied < status.Commit; status = (*node).Status() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return (*node).Campaign(ctx)
}

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
