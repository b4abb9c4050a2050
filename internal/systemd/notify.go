package systemd

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/connections"
)

// writeTimeout bounds the time that a message waits for room in the service manager's
// socket: a service manager that does not read must not block a stop.
const writeTimeout = 30 * time.Second

// Notifier sends messages to the service manager. The zero value sends nothing.
type Notifier struct {
	socket   string
	watchdog time.Duration
}

// Take reads systemd's variables and removes them from the environment. Call it before
// the API server starts (see [connections.TakeNotifySocket]).
func Take() (Notifier, error) {
	socket, err := connections.TakeNotifySocket()
	n := Notifier{socket: socket}
	if err != nil {
		return n, err
	}
	if n.watchdog, err = daemon.SdWatchdogEnabled(true); err != nil {
		return n, fmt.Errorf("read the watchdog's settings from the environment: %w", err)
	}
	return n, nil
}

// Send delivers a state, as "READY=1".
func (n Notifier) Send(state string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer func() { _ = conn.Close() }() // the datagram is out or has failed by then
	if err := conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// FeedWatchdog sends WATCHDOG=1 twice in the service manager's interval while healthy
// returns nil; otherwise it calls failed with the error. It returns when ctx ends, or
// at once if no watchdog is configured.
func (n Notifier) FeedWatchdog(ctx context.Context, healthy func(context.Context) error, failed func(error)) {
	if n.socket == "" || n.watchdog == 0 {
		return
	}
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if err := healthy(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		} else if err := n.Send("WATCHDOG=1"); err != nil {
			failed(err)
		}
	}, n.watchdog/2)
}
