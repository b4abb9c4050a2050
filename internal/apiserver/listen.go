package apiserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/netutil"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
)

// Upstream fact: the server closes its listener, and panics if another caller has
//
// Mirrors: k8s.io/apiserver/pkg/server.RunServer
// Why: the port is taken before the server is built. If the start fails before
//   the server runs, the listener must be closed here, and otherwise not.
// Gain: a taken port is an error in the first milliseconds of a start.
// Breaks: a stop panics, or a failed start leaves the port open.

// connectionShare / connectionShareOf of the files that the process may open are
// for connections of clients. At that limit, further clients wait to be accepted.
// The rest is for etcd, which ends when it cannot open the next file of its log.
const connectionShare, connectionShareOf = 3, 4

// Listener is the port of the API, taken before anything else starts.
type Listener struct {
	net.Listener
	served atomic.Bool // a server runs on it and closes it
}

// Release closes the listener if no server has run on it. A running server closes
// it itself, and panics when another caller does
// (k8s.io/apiserver/pkg/server.RunServer).
func (l *Listener) Release() {
	if !l.served.Load() {
		_ = l.Close() // no connection was accepted
	}
}

// limitConnections bounds how many connections the listener accepts at a time.
func limitConnections(listener net.Listener) net.Listener {
	files, ok := fileLimit()
	if !ok {
		return listener
	}
	return netutil.LimitListener(listener, max(files/connectionShareOf*connectionShare, 1))
}

// Listen takes the port that the configuration names. The listener accepts as many
// connections at a time as the limit of open files allows.
func Listen(serving *config.Serving) (*Listener, error) {
	address := net.JoinHostPort(serving.BindAddress, strconv.Itoa(serving.Port))
	listener, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is taken by another program: stop it, or choose another port with --port (0 takes a free one)", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("%s is not an address of this machine: set serving.bindAddress to one that is, or to 0.0.0.0", serving.BindAddress)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("%s may not be used by this user: choose a port above 1023 with --port", address)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return &Listener{Listener: limitConnections(listener)}, nil
}
