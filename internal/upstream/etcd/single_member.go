package etcd

import (
	"context"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream"
)

// Upstream fact: a member without listeners, and its election
//
// Mirrors: go.etcd.io/etcd/server/v3/embed.StartEtcd
//   go.etcd.io/etcd/server/v3/embed.Config.Validate
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.adjustTicks
//   go.etcd.io/etcd/server/v3/etcdserver.raftNode#ticker
//   go.etcd.io/etcd/server/v3/etcdserver.raftNode.start#r.ticker.C
//   go.etcd.io/etcd/server/v3/etcdserver/api/v3client.New
//   go.etcd.io/raft/v3.raft.resetRandomizedElectionTimeout
//   go.etcd.io/raft/v3.raft.tickHeartbeat
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.linearizableReadLoop
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.requestCurrentIndex
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.ReadyNotify
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.publishV3
// Why: only this process uses the member, so that it needs no port. The advertised URLs
//   must have a host and a port, at which nothing listens. At its start a single member is
//   one to five ticks away from its election, which fails the reads that wait for it with
//   ErrLeaderChanged: the watch caches of the API servers would log that as an error.
//   Afterwards its ticks have no effect: there is no follower to send heartbeats to, and no
//   other member to elect. The interval is a setting of the start only, so that the ticker
//   of the member is changed.
// Gain: etcd is not reachable from the network. It is elected in 10 to 50 ms, while the API
//   servers are built, instead of 0.1 to 1 s: with the ticks of etcd, a cold start takes
//   0.72 s instead of 0.19 s. With rare ticks an idle process takes 0.87 % of a core
//   instead of 0.98 % (bench, start and idle; trials). The log of a healthy start has no
//   errors.
// Breaks: the member does not start; its ticker is not found, and each start takes half a
//   second longer and logs a warning; or the log of some starts has an error. Tests:
//   TestSlowTicks, TestField, TestReadsWaitForTheElection.

const (
	// MemberName is the name of the member.
	MemberName = "kube-hyper-mini"
	// Advertised is the URL of the member: raft names it by host:port. Nothing listens
	// there.
	Advertised     = "http://" + advertisedHost
	advertisedHost = "kube-hyper-mini.invalid:2380"

	// The election of the only member takes one to five ticks, during which the API
	// servers are built.
	tickMillis    = 10
	electionTicks = 5 // the least that etcd accepts
	// restTick is the interval of ticks after the election.
	restTick = 500 * time.Millisecond
)

// BecomeSingleMember makes the configuration that of the only member of a cluster, which
// has no listener and is elected soon, unless [SlowTicks] would fail. Call that when it has
// started. The advertised URL is stored in the data: it must not change.
func BecomeSingleMember(c *embed.Config) {
	advertised := url.URL{Scheme: "http", Host: advertisedHost}
	c.Name = MemberName
	if _, err := tickerOf(&etcdserver.EtcdServer{}); err == nil {
		c.TickMs, c.ElectionMs = tickMillis, electionTicks*tickMillis
	}
	c.ListenPeerUrls, c.ListenClientUrls, c.ListenClientHttpUrls, c.ListenMetricsUrls = nil, nil, nil, nil
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{advertised}, []url.URL{advertised}
	c.InitialCluster = MemberName + "=" + Advertised
}

// SlowTicks returns a function that makes the ticks of a member rare. Call that after the
// election: before, it would delay it. It may be called at any time, from any goroutine.
func SlowTicks(server *etcdserver.EtcdServer) (slow func(), err error) {
	ticker, err := tickerOf(server)
	if err != nil {
		return nil, err
	}
	return func() { (*ticker).Reset(restTick) }, nil
}

func tickerOf(server *etcdserver.EtcdServer) (**time.Ticker, error) {
	return upstream.Field[*time.Ticker](server, "r", "ticker")
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
