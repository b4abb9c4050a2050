package connections

import (
	"errors"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// Upstream fact: when clients of `service:` references call the resolver, and repeat a request
//
// Mirrors: k8s.io/apiserver/pkg/util/webhook.ClientManager.HookClient
//   k8s.io/apiserver/pkg/util/webhook.ClientManager.hookClientConfig
//   k8s.io/kube-aggregator/pkg/apiserver.proxyHandler.ServeHTTP
//   net/http.nothingWrittenError
//   net/http.persistConn.shouldRetryRequest
//   net/http.persistConn.writeLoop
// Why: the client of a webhook is cached, with one pool of connections, and calls the
//   resolver when it dials. The proxy of the aggregator calls it for each request. A pooled
//   connection to a target that has been removed refuses the next request in Write, and
//   net/http takes another connection, because nothing was written.
// Gain: webhooks and aggregated API servers without Services; a change of targets applies
//   at once, without an error.
// Breaks: connections to removed targets are used, requests in progress are cut, or the
//   first request after a change fails. Tests:
//   TestHostsChangeWithTheTargetsForTheAggregatorOnly, TestWebhookReplicas,
//   TestPooledConnectionIsNotUsedAfterAMove.

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

// ErrMoved makes net/http send the request on another connection: it does so
// when nothing has been written (net/http's nothingWrittenError).
var ErrMoved = errors.New("the service's targets have changed since this connection was made")

// Pooled is an HTTP/1.1 connection that refuses new requests when its target has
// been removed. A request begins with the first write after a read; a request in
// progress continues.
type Pooled struct {
	net.Conn
	// Current reports whether the target is still one of the service.
	Current  func() bool
	answered atomic.Bool
}

// Read implements [net.Conn].
func (c *Pooled) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *Pooled) Write(b []byte) (int, error) {
	if c.answered.Load() && !c.Current() {
		return 0, ErrMoved
	}
	c.answered.Store(false)
	return c.Conn.Write(b)
}
