package etcd

import (
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
)

// Upstream fact: a member without listeners, and how it elects itself
//
// Mirrors: go.etcd.io/etcd/server/v3/embed.StartEtcd
//   go.etcd.io/etcd/server/v3/embed.Config.Validate
//   go.etcd.io/etcd/server/v3/etcdserver.EtcdServer.adjustTicks
//   go.etcd.io/etcd/server/v3/etcdserver/api/v3client.New
//   go.etcd.io/raft/v3.raft.resetRandomizedElectionTimeout
// Why: only this process uses the member, so that it needs no port. The
//   advertised URLs must have a host and a port, at which nothing listens. At its
//   start a single member is one to five ticks away from its election.
// Gain: etcd is not reachable from the network, and it is elected in 30 to 150 ms
//   while the API servers are built, instead of 0.1 to 1 s.
// Breaks: the member does not start, or a start takes longer.

const (
	// MemberName is the name of the member.
	MemberName = "kube-hyper-mini"
	// Advertised is the URL of the member: raft names it by host:port. Nothing listens
	// there.
	Advertised     = "http://" + advertisedHost
	advertisedHost = "kube-hyper-mini.invalid:2380"

	// The election of the only member takes one to five ticks, 30 to 150 ms,
	// during which the API servers are built. etcd's defaults take 0.1 to 1 s.
	// Shorter ticks would wake an idle process more often.
	tickMillis = 30
	// testTickMillis is the same without fsync, for servers that start for each test.
	testTickMillis = 15
	electionTicks  = 5 // the least that etcd accepts
)

// BecomeSingleMember makes the configuration that of the only member of a cluster, which
// has no listener and is elected soon, in half the time without fsync. The advertised URL
// is stored in the data: it must not change.
func BecomeSingleMember(c *embed.Config) {
	advertised := url.URL{Scheme: "http", Host: advertisedHost}
	c.Name = MemberName
	tick := uint(tickMillis)
	if c.UnsafeNoFsync {
		tick = testTickMillis
	}
	c.TickMs, c.ElectionMs = tick, electionTicks*tick
	c.ListenPeerUrls, c.ListenClientUrls, c.ListenClientHttpUrls, c.ListenMetricsUrls = nil, nil, nil, nil
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{advertised}, []url.URL{advertised}
	c.InitialCluster = MemberName + "=" + Advertised
}
