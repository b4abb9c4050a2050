package connections

import (
	"errors"
	"net"
	"sync/atomic"
)

// Upstream fact: net/http repeats a request of which nothing was written
//
// Mirrors: net/http.nothingWrittenError
//   net/http.persistConn.shouldRetryRequest
//   net/http.persistConn.writeLoop
// Why: clients of webhooks keep connections to a target that has been removed. A
//   connection refuses the next request in Write, and net/http takes another
//   connection.
// Gain: a webhook request after a change of targets reaches the new target,
//   without an error.
// Breaks: the first request after a change of targets fails.
//   TestPooledConnectionIsNotUsedAfterAMove fails.

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
