package controlplane

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// onceListener is the listener of the program, which the server and [ControlPlane] close. Its
// Close may be called again.
type onceListener struct {
	net.Listener
	close func() error
}

// Close implements [net.Listener].
func (l onceListener) Close() error { return l.close() }

// closeOnce returns a listener that calls Close of l once; nil for nil.
func closeOnce(l net.Listener) net.Listener {
	if l == nil {
		return nil
	}
	return onceListener{l, sync.OnceValue(l.Close)}
}

// closeListener closes the listener of the program, unless it is closed.
func (c *ControlPlane) closeListener() error {
	if c.options.Listener == nil {
		return nil
	}
	if err := c.options.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close Options.Listener: %w", err)
	}
	return nil
}
