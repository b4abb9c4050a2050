package apiserver

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

// idleRead is what a connection may send without a request, besides two headers: the TLS handshake,
// and the rest of the body of a refused request, of which net/http reads 256 KiB.
// Upstream's bound of a header is 1 MiB.
const idleRead = 256 << 10

// handlerDelay is time for the handler of a request whose body is being read to begin.
const handlerDelay = 100 * time.Millisecond

// errHeaderTooLarge ends a connection.
var errHeaderTooLarge = errors.New("the client has sent too much without a request")

// connectionLimits is a listener that bounds the connections of each client address, and
// what a connection sends before it has a request: upstream keeps a megabyte for it.
type connectionLimits struct {
	net.Listener
	limits config.Limits
	log    *slog.Logger

	mu        sync.Mutex
	addresses map[string]*clientAddress     // with connections, by host
	open      map[string]*limitedConnection // by host and port
}

// clientAddress is an address with connections.
type clientAddress struct {
	connections int
	logged      bool // a refusal was logged
}

func newConnectionLimits(listener net.Listener, limits config.Limits, log *slog.Logger) *connectionLimits {
	return &connectionLimits{
		Listener: listener, limits: limits, log: log,
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
	if most := l.limits.ConnectionsPerAddress; most > 0 && client.connections == most {
		if !client.logged {
			l.log.Warn("closing connections above limits.connectionsPerAddress", "address", host, "limit", most)
		}
		client.logged = true
		return nil
	}
	client.connections++
	connection := &limitedConnection{Conn: accepted, most: math.MaxInt64}
	if header := l.limits.LargestHeader.Value(); header > 0 {
		connection.most = idleRead + 2*header
	}
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

// limitHeaders wraps the whole handler chain: it records which connections have requests, and
// refuses requests with a large header with 431.
func (l *connectionLimits) limitHeaders(next http.Handler) http.Handler {
	most := l.limits.LargestHeader.Value()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		connection := l.open[r.RemoteAddr]
		l.mu.Unlock()
		if connection != nil {
			connection.requests.Add(1)
			defer connection.ended(r)
		}
		if size := headerSize(r); most > 0 && size > most {
			http.Error(w, fmt.Sprintf("the header of the request has %d bytes with its path and query; at most %d are "+
				"allowed (limits.largestHeader of the server's configuration)",
				size, most), http.StatusRequestHeaderFieldsTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// headerSize returns the size of the header of a request with its path and query.
func headerSize(r *http.Request) int64 {
	size := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return int64(size)
}

// limitedConnection is a connection of a client.
type limitedConnection struct {
	net.Conn
	most     int64 // bytes without a request
	forget   func()
	requests atomic.Int64 // in flight
	read     atomic.Int64 // bytes since the last request has ended
	// rest is what may come of the bodies of requests of HTTP/2 that were answered before their
	// end, on a connection that other clients of the process share.
	rest atomic.Int64
}

func (c *limitedConnection) ended(r *http.Request) {
	if r.ProtoMajor == 2 && r.ContentLength != 0 {
		c.rest.Add(idleRead)
	}
	c.read.Store(0)
	c.requests.Add(-1)
}

func (c *limitedConnection) isOver() bool {
	return c.requests.Load() == 0 && c.read.Load() > c.most+c.rest.Load()
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
