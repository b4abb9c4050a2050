package faults

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// limited is a server under a limit of the shell's.
func limited(limit string) harness.Options {
	return harness.Options{Wrap: []string{"sh", "-c", "ulimit " + limit + `; exec "$0" "$@"`}}
}

// TestFewFiles: with more clients than file descriptors, connected clients are
// served, others wait, and etcd can open its files.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t, limited("-n 120"), 2, 1)
	server := s.start()
	s.check() // the clients are connected
	address := *s.address.Load()
	var crowd []net.Conn
	for range 400 {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, connection)
	}
	before := len(openFiles(t, server.PID()))
	for i := range 5 {
		if err := churn(t, s, i); err != nil {
			t.Fatalf("who was there first is not served: %v", err)
		}
	}
	t.Logf("%d files are open, for %d clients", before, len(crowd))
	if before > 115 {
		t.Errorf("clients hold all files: %d are open", before)
	}
	for _, connection := range crowd {
		_ = connection.Close() // nothing was sent
	}
	harness.Eventually(t, "new clients are served", func() error {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // the certificate does not matter
		if err != nil {
			return err
		}
		return connection.Close()
	})
	if strings.Contains(server.Log(), "too many open files") {
		t.Error("files ran out; see the log")
	}
	server.Kill()
	s.start()
	s.check()
}

// churn makes a few hundred writes over one open connection.
func churn(t *testing.T, s *site, round int) error {
	t.Helper()
	for _, w := range s.writers {
		for range 20 {
			if err := w.create(t.Context(), s.maps); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		for range 20 {
			if err := w.remove(t.Context(), s.maps); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
	}
	return nil
}

func openFiles(t *testing.T, pid int) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestLittleMemory: a soft limit far below what the load needs makes the server
// slower and has no other effect.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t, harness.Options{Env: []string{"GOMEMLIMIT=100MiB"}}, 2, 1)
	server := s.start()
	for i := range 20 {
		if err := put(t, server, fmt.Sprintf("large-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		list, err := server.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) < 20 {
			t.Fatalf("a large list: %v", err)
		}
	}
	if err := churn(t, s, 0); err != nil {
		t.Error(err)
	}
	s.check()
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

// TestNoMemory: when the kernel refuses memory, the process ends, and
// acknowledged writes are kept.
func TestNoMemory(t *testing.T) {
	t.Parallel()
	s := newSite(t, limited("-d 260000"), 2, 1) // kilobytes of data
	server := s.start()
	wait := s.write(t.Context())
	for i := 0; server.Running(); i++ {
		if err := put(t, server, fmt.Sprintf("large-%d", i)); err != nil {
			continue // the server has ended, or is about to
		}
		_, _ = server.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}) // as above
	}
	wait()
	if code := server.Wait(); code == 0 {
		t.Error("it ended as if all were well")
	}
	// The Go runtime's message.
	if log := server.Log(); !strings.Contains(log, "out of memory") && !strings.Contains(log, "cannot allocate memory") {
		t.Errorf("it does not say why it ended:\n%s", log)
	}
	s.options.Wrap = nil
	s.start()
	s.check()
}
