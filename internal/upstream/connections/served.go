package connections

import (
	"net"
	"sync/atomic"
)

// Upstream fact: the server closes its listener, and panics if another caller has
//
// Mirrors: k8s.io/apiserver/pkg/server.RunServer
// Why: the port is taken before the server is built. If the start fails before
//   the server runs, the listener must be closed here, and otherwise not.
// Gain: a taken port is an error in the first milliseconds of a start.
// Breaks: a stop panics, or a failed start leaves the port open. Tests: TestTakenPort.

// Served is a listener that an API server may run on.
type Served struct {
	net.Listener
	served atomic.Bool
}

// MarkServed is called right before a server runs on the listener: the server closes it.
func (s *Served) MarkServed() { s.served.Store(true) }

// Release closes the listener unless a server has run on it.
func (s *Served) Release() {
	if !s.served.Load() {
		_ = s.Close() // no connection was accepted
	}
}
