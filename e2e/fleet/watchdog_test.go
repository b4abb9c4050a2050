package fleet

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// notifications returns what a server with this NOTIFY_SOCKET sends.
func notifications(t *testing.T) (socket string, messages <-chan string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify-") // a socket's path has room for 100 characters
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	received, ended := make(chan string), make(chan struct{})
	go func() {
		defer close(ended)
		for buffer := make([]byte, 4096); ; {
			n, err := conn.Read(buffer)
			if err != nil {
				return // it is closed
			}
			select {
			case received <- string(buffer[:n]):
			default: // nothing waits for it
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close() // ends the reads
		<-ended
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return socket, received
}

// TestWatchdogDuringAStallOfEtcd: the watchdog of the service manager is fed
// while the external etcd is away for longer than its time: a new process would
// not bring etcd back.
func TestWatchdogDuringAStallOfEtcd(t *testing.T) {
	members := cluster(t, 1)
	socket, messages := notifications(t)
	s := harness.LaunchWith(t, harness.Options{
		Args: []string{"--config", onEtcd(t, endpoints(members), "")},
		Env:  []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=1000000"},
	})
	s.WaitLog(harness.ReadyLine)
	s.WaitLog("acquired the controller lease")
	resume := members[0].pause()
	s.WaitLog("lost the controller lease") // renewed for ten times the watchdog's time in vain
	for range 3 {
		select {
		case message := <-messages:
			if message != "WATCHDOG=1" {
				t.Errorf("the server notifies %q", message)
			}
		case <-time.After(harness.Patience):
			t.Fatal("the watchdog is not notified")
		}
	}
	resume()
	createNamespace(t, s, "after-the-stall")
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
}
