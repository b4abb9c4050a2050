package connections

import (
	"hash/fnv"
	"strconv"
	"strings"
)

// Upstream fact: when clients of `service:` references call the resolver
//
// Mirrors: k8s.io/apiserver/pkg/util/webhook.ClientManager.HookClient
//   k8s.io/apiserver/pkg/util/webhook.ClientManager.hookClientConfig
//   k8s.io/kube-aggregator/pkg/apiserver.proxyHandler.ServeHTTP
// Why: the client of a webhook is cached, with one pool of connections, and calls
//   the resolver when it dials. The proxy of the aggregator calls it for each
//   request.
// Gain: webhooks and aggregated API servers without Services; a change of targets
//   applies at once.
// Breaks: connections to removed targets are used, or requests in progress are cut.
//   Tests: TestHostsChangeWithTheTargetsForTheAggregatorOnly, TestWebhookReplicas.

// poolPrefix begins the label that identifies a set of targets.
const poolPrefix = "targets-"

// PoolHost returns a host for the aggregator's proxy that changes with the targets: a
// change begins a new pool of connections, and requests in progress continue.
func PoolHost(host string, targets []string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(targets, " "))) // cannot fail
	return poolPrefix + strconv.FormatUint(uint64(h.Sum32()), 16) + "." + host
}

// CutPool returns the host that [PoolHost] was called with, and false for other hosts.
func CutPool(host string) (string, bool) {
	pool, rest, found := strings.Cut(host, ".")
	if !found || !strings.HasPrefix(pool, poolPrefix) || strings.Count(rest, ".") != 2 {
		return host, false
	}
	return rest, true
}
