package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// stopGrace is the time that requests get to end at a stop; watches do not end
// by themselves and are cut.
const stopGrace = 200 * time.Millisecond

// Options of a console.
type Options struct {
	// Config connects to the API server. The page has its rights.
	Config *rest.Config
	// Context is the name of the kubeconfig's context, shown by the page.
	Context string
	// Namespace of the context; empty if it names none. The page begins with it.
	Namespace string
	// Port of loopback to listen on; 0 is a free one.
	Port int
	// Open opens a local file in the user's browser; nil opens none.
	Open func(path string) error
	// Log gets the messages for the terminal.
	Log *slog.Logger
}

// Console listens for a browser. It is used by one goroutine.
type Console struct {
	listeners []net.Listener
	handler   *handler
}

// New listens, and fails when the port is taken or the configuration is not
// usable. The caller runs it.
func New(options Options) (*Console, error) {
	listeners, err := listen(options.Port)
	if err != nil {
		return nil, err
	}
	handler, err := newHandler(options, portOf(listeners[0]))
	if err != nil {
		for _, listener := range listeners {
			err = errors.Join(err, listener.Close())
		}
		return nil, err
	}
	return &Console{listeners: listeners, handler: handler}, nil
}

// Address is the URL to open. Its token opens one session.
func (c *Console) Address() string {
	address, _ := c.handler.address()
	return address
}

// Run serves until ctx ends. It opens the browser if Options.Open is set.
func (c *Console) Run(ctx context.Context) error {
	server := &http.Server{Handler: c.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, len(c.listeners))
	for _, listener := range c.listeners {
		go func() { served <- server.Serve(listener) }()
	}
	used, opened := c.handler.sessions.used, make(chan error, 1)
	remove := c.openBrowser(opened)
	defer remove()
	for running := true; running; {
		select {
		case err := <-served:
			return errors.Join(fmt.Errorf("serve the console: %w", err), server.Close())
		case err := <-opened:
			if err != nil {
				c.handler.Log.Info(fmt.Sprintf("cannot open a browser (%v): open %s", err, c.Address()))
			}
		case <-used:
			used = nil
			remove()
		case <-ctx.Done():
			running = false
		}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // cuts watches; the listener is closed already
	}
	for range c.listeners {
		<-served
	}
	return nil
}

// openBrowser opens the browser, sends the result to opened, and returns a function
// that removes the file with the token. It does not wait: the program that it starts
// may be the browser itself.
func (c *Console) openBrowser(opened chan<- error) (remove func()) {
	if c.handler.Open == nil {
		return func() {}
	}
	token, _ := c.handler.sessions.announce()
	file, err := newOpening(c.handler.host, token)
	if err != nil {
		opened <- err
		return func() {}
	}
	go func() { opened <- c.handler.Open(file) }()
	return func() { _ = os.Remove(file) } // an earlier call may have
}
