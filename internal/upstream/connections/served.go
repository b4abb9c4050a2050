package connections

import (
	"net"
	"sync"
	"sync/atomic"
)

// Upstream fact: the server closes its listener, and panics if another caller has
//
// Mirrors: k8s.io/apiserver/pkg/server.RunServer
// Why: the port is taken before the server is built. If the start fails before
//   the server runs, the listener must be closed here, and otherwise not. A listener of the
//   program may be closed by it, or break: the panic is in a goroutine of upstream's, and would
//   end the process with all its servers.
// Gain: a taken port is an error in the first milliseconds of a start; a listener that fails
//   stops its server only.
// Breaks: a stop panics, a failed start leaves the port open, or a listener that the program
//   closes ends the process. Tests: TestTakenPort, TestListenerThatFails.

// Served is a listener that an API server may run on. Its Accept returns no error that lasts
// before Close: [Served.Failed] has it.
type Served struct {
	net.Listener
	served atomic.Bool
	failed chan error    // the first error
	closed chan struct{} // when Close is called
	once   sync.Once
}

// NewServed returns a listener that no server has run on.
func NewServed(listener net.Listener) *Served {
	return &Served{Listener: listener, failed: make(chan error, 1), closed: make(chan struct{})}
}

// Failed receives the error after which the listener accepts no more connections, unless it
// was closed with Close.
func (s *Served) Failed() <-chan error { return s.failed }

// Accept implements [net.Listener].
func (s *Served) Accept() (net.Conn, error) {
	connection, err := s.Listener.Accept()
	if err == nil || isTemporary(err) {
		return connection, err
	}
	select {
	case <-s.closed:
		return nil, err
	default:
	}
	select {
	case s.failed <- err:
	default: // there is one already
	}
	<-s.closed
	return nil, err
}

// isTemporary reports whether [net/http.Server] goes on after an error of Accept.
func isTemporary(err error) bool {
	failure, ok := err.(interface { //nolint:errorlint // net/http looks at no wrapped error either
		net.Error
		Temporary() bool
	})
	return ok && failure.Temporary()
}

// Close implements [net.Listener].
func (s *Served) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Listener.Close()
}

// MarkServed is called right before a server runs on the listener: the server closes it.
func (s *Served) MarkServed() { s.served.Store(true) }

// Release closes the listener unless a server has run on it.
func (s *Served) Release() {
	if !s.served.Load() {
		_ = s.Close() // no connection was accepted
	}
}
