package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// serviceManager listens as systemd does.
type serviceManager struct {
	t        *testing.T
	path     string
	messages chan string
}

// lastMessage is the test's own.
const lastMessage = "LAST=1"

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	// Not t.TempDir: a socket's path has room for 100 characters.
	dir, err := os.MkdirTemp("", "notify-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m := &serviceManager{t, path, make(chan string, 10000)}
	ended := make(chan struct{})
	go func() { // reads all the time: the socket buffers about ten messages
		defer close(ended)
		for buffer := make([]byte, 4096); ; {
			n, err := conn.Read(buffer)
			if err != nil {
				return // it is closed
			}
			m.messages <- string(buffer[:n])
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close() // the reader has ended
		<-ended
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return m
}

// next waits for a message.
func (m *serviceManager) next() string {
	m.t.Helper()
	select {
	case message := <-m.messages:
		return message
	case <-time.After(harness.Patience):
		m.t.Fatal("no message has come")
		return ""
	}
}

// rest returns the messages that are unread after the process has ended.
func (m *serviceManager) rest() []string {
	m.t.Helper()
	conn, err := net.Dial("unixgram", m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // what was written is there
	if _, err := conn.Write([]byte(lastMessage)); err != nil {
		m.t.Fatal(err)
	}
	var messages []string
	for message := m.next(); message != lastMessage; message = m.next() {
		messages = append(messages, message)
	}
	return messages
}

// TestServiceManager: READY=1 comes once, when the server is ready, then
// WATCHDOG=1 repeatedly, then STOPPING=1.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	manager := newServiceManager(t)
	s := harness.LaunchWith(t, harness.Options{Env: []string{"NOTIFY_SOCKET=" + manager.path, "WATCHDOG_USEC=400000"}})
	if first := manager.next(); first != "READY=1" {
		t.Fatalf("the first message is %q", first)
	}
	// Lines about a slow disk are left out.
	if out, _ := harness.CLI(t, "status", "--data-dir", s.Dir); strings.Contains(out, "the server is starting") || strings.Contains(out, "the controllers are not running") {
		t.Fatalf("READY=1 came when the server was not ready:\n%s", out)
	}
	s.Kubectl("", "create", "configmap", "works")
	for range 3 {
		if sign := manager.next(); sign != "WATCHDOG=1" {
			t.Fatalf("want a sign of life, got %q", sign)
		}
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
	stopping := 0
	for _, message := range manager.rest() {
		switch {
		case message == "STOPPING=1":
			stopping++
		case message != "WATCHDOG=1" || stopping > 0:
			t.Errorf("got %q after READY=1 and %d STOPPING=1", message, stopping)
		}
	}
	if stopping != 1 {
		t.Errorf("got STOPPING=1 %d times", stopping)
	}
}

// TestServiceManagerDuringAFailedStart: the service manager gets no READY=1.
func TestServiceManagerDuringAFailedStart(t *testing.T) {
	t.Parallel()
	manager := newServiceManager(t)
	dir := filepath.Join(t.TempDir(), "data")
	placeAuthority(t, dir, "server-ca")
	if err := os.Remove(filepath.Join(dir, "pki", "server-ca.crt")); err != nil {
		t.Fatal(err)
	}
	// WATCHDOG_PID names another process: the server sends no WATCHDOG=1.
	out, code := harness.CLIWith(t, []string{"NOTIFY_SOCKET=" + manager.path, "WATCHDOG_USEC=1000", "WATCHDOG_PID=1"},
		"server", "--data-dir", dir, "--port", "0")
	if code != harness.ExitFailure {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	for _, message := range manager.rest() {
		if strings.Contains(message, "READY") || strings.Contains(message, "WATCHDOG") {
			t.Errorf("a start that failed says %q", message)
		}
	}
}
