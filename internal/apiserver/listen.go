package apiserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/net/netutil"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/connections"
)

// connectionShare / connectionShareOf of the files that the process may open are
// for connections of clients. At that limit, further clients wait to be accepted.
// The rest is for etcd, which ends when it cannot open the next file of its log.
const connectionShare, connectionShareOf = 3, 4

// Listener is the port of the API, taken before anything else starts.
type Listener = connections.Served

// Listen takes the port that the configuration names. The listener accepts as many
// connections at a time as the limit of open files allows, within limits.
func Listen(serving *config.Serving, limits config.Limits, log *slog.Logger) (*Listener, error) {
	address := net.JoinHostPort(serving.BindAddress, strconv.Itoa(serving.Port))
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is taken by another program: stop it, or choose another port with --port "+
			"(0 takes a free one)", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this machine: set serving.bindAddress to one that is, or to 0.0.0.0",
			serving.BindAddress)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%s may not be used by this user: choose a port above 1023 with --port", address)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return NewListener(listener, limits, log), nil
}

// NewListener bounds the connections of a listener, as [Listen] does.
func NewListener(listener net.Listener, limits config.Limits, log *slog.Logger) *Listener {
	if files, ok := fileLimit(); ok {
		listener = netutil.LimitListener(listener, max(files/connectionShareOf*connectionShare, 1))
	}
	return connections.NewServed(newConnectionLimits(listener, limits, log))
}

// NoListener returns a listener that no client can reach: the API is served in the process
// only.
func NoListener() *Listener { return connections.NewServed(&unreachable{closed: make(chan struct{})}) }

// unreachable accepts no connection until it is closed.
type unreachable struct {
	closed chan struct{}
	once   sync.Once
}

// Accept implements [net.Listener].
func (u *unreachable) Accept() (net.Conn, error) {
	<-u.closed
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (u *unreachable) Close() error {
	u.once.Do(func() { close(u.closed) })
	return nil
}

// Addr implements [net.Listener].
func (u *unreachable) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
