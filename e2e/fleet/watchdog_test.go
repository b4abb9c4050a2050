package fleet

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// TestStalledEtcd: a server outlives an etcd that is silent for longer than the lease is
// renewed, and runs the controllers again. Meanwhile it notifies the watchdog of the service
// manager: a new process would not bring etcd back.
func TestStalledEtcd(t *testing.T) {
	t.Parallel()
	members := cluster(t, 1)
	socket, messages := notifications(t)
	s := harness.LaunchWith(t, harness.Options{
		Args: []string{"--config", onEtcd(t, endpoints(members), "")},
		Env:  []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=1000000"},
	})
	s.WaitReady()
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
	harness.Eventually(t, "the server runs the controllers again", func() error {
		if n := strings.Count(s.Log(), "acquired the controller lease"); n < 2 {
			return fmt.Errorf("it has begun %d times", n)
		}
		return nil
	})
	createNamespace(t, s, "after-the-stall")
	populated(t, s, "after-the-stall")
	s.Kubectl("", "create", "quota", "some", "-n", "after-the-stall", "--hard=configmaps=9")
	s.Await("jsonpath={.status.used.configmaps}", "quota/some", "-n", "after-the-stall")
	s.Kubectl("", "delete", "namespace", "after-the-stall")
	if code := s.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
}
