package apiserver

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// maxIdleRead bounds the bytes that a connection takes while it has no request: those of
// the TLS handshake, the header of the next request, and what is left of the body of a
// refused one, of which net/http reads 256 KiB. Upstream's bound of a header is 1 MiB.
const maxIdleRead = 384 << 10

// handlerDelay is time for the handler of a request whose body is being read to begin.
const handlerDelay = 100 * time.Millisecond

// errHeaderTooLarge ends a connection.
var errHeaderTooLarge = errors.New("the client has sent more than 384 KiB without a request")

// connectionLimits is a listener that bounds the connections of each client address, and
// what a connection sends before it has a request: upstream keeps a megabyte for it.
type connectionLimits struct {
	net.Listener
	perAddress int // 0 for no bound
	log        *slog.Logger

	mu        sync.Mutex
	addresses map[string]*clientAddress     // with connections, by host
	open      map[string]*limitedConnection // by host and port
}

// clientAddress is an address with connections.
type clientAddress struct {
	connections int
	logged      bool // a refusal was logged
}

func newConnectionLimits(listener net.Listener, perAddress int, log *slog.Logger) *connectionLimits {
	return &connectionLimits{
		Listener: listener, perAddress: perAddress, log: log,
		addresses: map[string]*clientAddress{}, open: map[string]*limitedConnection{},
	}
}

// Accept implements [net.Listener]. It closes the connections above the bound.
func (l *connectionLimits) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.admit(accepted); admitted != nil {
			return admitted, nil
		}
		_ = accepted.Close() // nothing was sent
	}
}

// admit counts the connection; it returns nil for one above the bound.
func (l *connectionLimits) admit(accepted net.Conn) net.Conn {
	address := accepted.RemoteAddr().String()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	client := l.addresses[host]
	if client == nil {
		client = &clientAddress{}
		l.addresses[host] = client
	}
	if l.perAddress > 0 && client.connections == l.perAddress {
		if !client.logged {
			l.log.Warn("closing connections above limits.connectionsPerAddress", "address", host, "limit", l.perAddress)
		}
		client.logged = true
		return nil
	}
	client.connections++
	connection := &limitedConnection{Conn: accepted}
	l.open[address] = connection
	connection.forget = sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, address)
		if client.connections--; client.connections == 0 {
			delete(l.addresses, host)
		}
	})
	return connection
}

// limitHeaders wraps the whole handler chain: it records which connections have requests.
func (l *connectionLimits) limitHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		connection := l.open[r.RemoteAddr]
		l.mu.Unlock()
		if connection != nil {
			connection.requests.Add(1)
			defer connection.ended()
		}
		next.ServeHTTP(w, r)
	})
}

// limitedConnection is a connection of a client.
type limitedConnection struct {
	net.Conn
	forget   func()
	requests atomic.Int64 // in flight
	read     atomic.Int64 // bytes since the last request has ended
}

func (c *limitedConnection) ended() {
	c.read.Store(0)
	c.requests.Add(-1)
}

func (c *limitedConnection) isOver() bool {
	return c.requests.Load() == 0 && c.read.Load() > maxIdleRead
}

// Read implements [net.Conn].
func (c *limitedConnection) Read(p []byte) (int, error) {
	if c.isOver() {
		time.Sleep(handlerDelay)
		if c.isOver() {
			return 0, errHeaderTooLarge
		}
	}
	n, err := c.Conn.Read(p)
	if c.requests.Load() == 0 {
		c.read.Add(int64(n))
	}
	return n, err
}

// Close implements [net.Conn].
func (c *limitedConnection) Close() error {
	c.forget()
	return c.Conn.Close()
}
