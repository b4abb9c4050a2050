package appliance

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// notifyPatience is how long a message waits for room in the service manager's
// socket.
const notifyPatience = 30 * time.Second

// notifier speaks systemd's sd_notify protocol. The API server does too, and
// would say READY=1 before the controllers run; so the variables that name
// the socket are taken from the environment before it starts.
type notifier struct {
	socket   string
	watchdog time.Duration
}

// takeNotifier reads and removes systemd's variables. Without them, as on
// other platforms, the notifier does nothing.
func takeNotifier() (notifier, error) {
	n := notifier{socket: os.Getenv("NOTIFY_SOCKET")}
	usec, pid := os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		if err := os.Unsetenv(name); err != nil {
			return n, fmt.Errorf("remove %s from the environment: %w", name, err)
		}
	}
	if usec == "" || (pid != "" && pid != strconv.Itoa(os.Getpid())) {
		return n, nil
	}
	micros, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || micros <= 0 {
		return n, fmt.Errorf("WATCHDOG_USEC=%q is not a number of microseconds", usec)
	}
	n.watchdog = time.Duration(micros) * time.Microsecond
	return n, nil
}

// send delivers a state, as "READY=1".
func (n notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer func() { _ = conn.Close() }() // the datagram is out or has failed by then
	// A service manager that does not read must not hold up a stop.
	if err := conn.SetWriteDeadline(time.Now().Add(notifyPatience)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// feed keeps systemd's watchdog quiet for as long as healthy returns nil, and
// returns when ctx ends.
func (n notifier) feed(ctx context.Context, healthy func(context.Context) error, failed func(error)) {
	if n.socket == "" || n.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(n.watchdog / 2)
	defer ticker.Stop()
	for {
		if err := healthy(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		} else if err := n.send("WATCHDOG=1"); err != nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
