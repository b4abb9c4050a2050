package fleet

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// member is a process of a real etcd cluster.
type member struct {
	t      *testing.T
	binary string
	args   []string
	client string // URL
	cmd    *exec.Cmd
}

// cluster runs a real etcd of n members and returns them.
func cluster(t *testing.T, n int) []*member {
	t.Helper()
	var names, peers []string
	for i := range n {
		names, peers = append(names, fmt.Sprintf("member-%d", i)), append(peers, freeURL(t))
	}
	dirs := make([]string, n)
	for i := range n {
		dirs[i] = t.TempDir()
	}
	return clusterIn(t, names, peers, dirs)
}

// clusterIn is a cluster on directories that may hold data already.
func clusterIn(t *testing.T, names, peers, dirs []string) []*member {
	t.Helper()
	binary := harness.Build(t, filepath.Join(harness.Root(t), "e2e"), "go.etcd.io/etcd/server/v3", "etcd")
	var members []*member
	for i, name := range names {
		m := &member{t: t, binary: binary, client: freeURL(t)}
		m.args = []string{
			"--name", name, "--data-dir", dirs[i], "--listen-client-urls", m.client, "--advertise-client-urls", m.client,
			"--listen-peer-urls", peers[i], "--initial-advertise-peer-urls", peers[i], "--initial-cluster", initialCluster(names, peers),
		}
		m.start()
		members = append(members, m)
	}
	return members
}

func initialCluster(names, peers []string) string {
	var pairs []string
	for i := range names {
		pairs = append(pairs, names[i]+"="+peers[i])
	}
	return strings.Join(pairs, ",")
}

func (m *member) start() {
	m.t.Helper()
	log, err := os.CreateTemp(m.t.TempDir(), "etcd-*.log")
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.Command(m.binary, m.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = log.Close() }) // only written
	if m.cmd == nil {                       // after the servers on it, which stop more slowly without it
		m.t.Cleanup(func() {
			_ = m.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			_ = m.cmd.Wait()                          // killed is what it is
		})
	}
	m.cmd = cmd
}

// waitHealthy waits until the member has a leader.
func (m *member) waitHealthy() {
	m.t.Helper()
	harness.Eventually(m.t, "the etcd member is healthy", func() error {
		response, err := (&http.Client{Timeout: 5 * time.Second}).Get(m.client + "/health")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }() // the status is enough
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// kill ends the member as a power failure does.
func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	_ = m.cmd.Wait()         // killed is what it is
}

// endpoints are the members' client URLs.
func endpoints(members []*member) []string {
	var urls []string
	for _, m := range members {
		urls = append(urls, m.client)
	}
	return urls
}

func freeURL(t *testing.T) string { return "http://" + harness.FreeAddress(t) }

// onEtcd is a configuration for the cluster.
func onEtcd(t *testing.T, urls []string, more string) string {
	t.Helper()
	return harness.ConfigFile(t, fmt.Sprintf("etcd: {external: {endpoints: [%s]}}\n%s", strings.Join(urls, ", "), more))
}

// identityOf makes a data directory with the identity of the server in dir.
func identityOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	copyIdentity(t, dir, to)
	return to
}

// copyIdentity copies the certificates and keys of a data directory to another one.
func copyIdentity(t *testing.T, from, to string) {
	t.Helper()
	for _, name := range []string{"pki", "encryption"} {
		err := os.MkdirAll(to, 0o700)
		if err == nil {
			err = exec.Command("cp", "-a", filepath.Join(from, name), to).Run()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pause stops the member as a stalled machine does, and returns what lets it go
// on.
func (m *member) pause() (resume func()) {
	m.t.Helper()
	process := m.cmd.Process
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = process.Signal(syscall.SIGCONT) }) // else it could not be stopped
	return func() {
		m.t.Helper()
		if err := process.Signal(syscall.SIGCONT); err != nil {
			m.t.Fatal(err)
		}
	}
}

// server starts a server on etcd with the identity of another one's directory,
// or with its own.
func server(t *testing.T, urls []string, identity string) *harness.Server {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if identity != "" {
		dir = identityOf(t, identity)
	}
	return harness.StartIn(t, dir, "--config", onEtcd(t, urls, ""))
}
