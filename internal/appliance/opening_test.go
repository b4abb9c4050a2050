package appliance

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/systemd"
)

// TestTellReading: a long start logs and asks the service manager for time.
func TestTellReading(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Skipf("no sockets of this kind here: %v", err)
	}
	defer func() { _ = conn.Close() }() // nothing is written
	t.Setenv("NOTIFY_SOCKET", socket)
	notifier, err := systemd.Take()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := datadir.Open(filepath.Join(t.TempDir(), "data"), datadir.CurrentStamp())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }() // the test is over
	if err := os.Mkdir(dir.Join("etcd"), 0o700); err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	p := &process{notifier: notifier, dir: dir, log: slog.New(slog.NewTextHandler(log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.tellReading(ctx, time.Millisecond)
	}()
	buffer := make([]byte, 4096)
	n, err := conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	if message := string(buffer[:n]); !strings.HasPrefix(message, "EXTEND_TIMEOUT_USEC=3000\nSTATUS=reading the database") {
		t.Errorf("the service manager is told %q", message)
	}
	if !strings.Contains(log.String(), "still reading the database") {
		t.Errorf("the log is\n%s", log)
	}
}
