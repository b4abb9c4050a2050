package endpoints

import (
	"errors"
	"net"
	"sync/atomic"
)

// errMoved makes net/http send the request on another connection: it does so
// when nothing has been written (net/http's nothingWrittenError).
var errMoved = errors.New("the service's targets have changed since this connection was made")

// pooledConn is an HTTP/1.1 connection that begins no new request once its
// target is not current any more. A request begins with the first write after
// a read: one that is under way is left alone.
type pooledConn struct {
	net.Conn
	current  func() bool
	answered atomic.Bool
}

// Read implements [net.Conn].
func (c *pooledConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

// Write implements [net.Conn].
func (c *pooledConn) Write(b []byte) (int, error) {
	if c.answered.Load() && !c.current() {
		return 0, errMoved
	}
	c.answered.Store(false)
	return c.Conn.Write(b)
}
