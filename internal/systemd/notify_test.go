package systemd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestTake(t *testing.T) {
	pid := strconv.Itoa(os.Getpid())
	for name, test := range map[string]struct {
		socket, usec, pid string
		fails             bool
		watchdog          int64 // in microseconds
	}{
		"no service manager":             {},
		"a socket alone":                 {socket: "/run/x"},
		"a watchdog":                     {socket: "/run/x", usec: "400000", pid: pid, watchdog: 400000},
		"a watchdog without a process":   {socket: "/run/x", usec: "400000", watchdog: 400000},
		"a watchdog of another process":  {socket: "/run/x", usec: "400000", pid: "1"},
		"an interval that is no number":  {socket: "/run/x", usec: "soon", fails: true},
		"an interval that is not larger": {socket: "/run/x", usec: "0", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", test.socket)
			t.Setenv("WATCHDOG_USEC", test.usec)
			t.Setenv("WATCHDOG_PID", test.pid)
			n, err := Take()
			if (err != nil) != test.fails {
				t.Fatalf("error %v", err)
			}
			if n.socket != test.socket || n.watchdog.Microseconds() != test.watchdog {
				t.Errorf("got %+v", n)
			}
			for _, variable := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
				if value, set := os.LookupEnv(variable); set {
					t.Errorf("%s=%q is left in the environment", variable, value)
				}
			}
		})
	}
}

// serviceManager returns the path of a socket, and what reads the messages to it.
func serviceManager(t *testing.T) (path string, conn net.Conn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "socket")
	conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skipf("this platform has no such sockets: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return path, conn
}

// TestUnhealthyServerDoesNotNotifyTheWatchdog: the service manager gets a
// message again when the server is healthy again.
func TestUnhealthyServerDoesNotNotifyTheWatchdog(t *testing.T) {
	path, conn := serviceManager(t)
	ctx, cancel := context.WithCancel(t.Context())
	sick, checks, failures := errors.New("sick"), 0, 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		Notifier{socket: path, watchdog: 2 * time.Millisecond}.FeedWatchdog(ctx, func(context.Context) error {
			if checks++; checks <= 2 {
				return sick
			}
			return nil
		}, func(err error) {
			if failures++; !errors.Is(err, sick) {
				t.Errorf("failed with %v", err)
			}
		})
	}()
	buffer := make([]byte, 100)
	n, err := conn.Read(buffer)
	cancel()
	<-done
	if err != nil || string(buffer[:n]) != "WATCHDOG=1" || failures != 2 || checks < 3 {
		t.Errorf("got %q, %v after %d checks and %d failures", buffer[:n], err, checks, failures)
	}
}
