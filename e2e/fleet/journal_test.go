package fleet

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// journalStatus is the part of a status about the journal.
type journalStatus struct {
	Standby      bool
	Chain        int
	LagSeconds   float64
	LagRevisions int64
	Error        string
}

func journalOf(s *harness.Server) (journalStatus, error) {
	var status struct{ Journal journalStatus }
	err := s.ReadStatus(&status)
	return status.Journal, err
}

// writesAfter waits until the server writes a chain after the given one, and returns it. A
// server that stalls for long on a busy machine begins another chain.
func writesAfter(t *testing.T, s *harness.Server, chain int) int {
	t.Helper()
	written := 0
	harness.Eventually(t, fmt.Sprintf("the server writes a chain after %d", chain), func() error {
		a, err := journalOf(s)
		if err != nil || a.Standby || a.Chain <= chain || a.Error != "" {
			return fmt.Errorf("%+v, %v", a, err)
		}
		written = a.Chain
		return nil
	})
	return written
}

// standsBy waits until another server writes the journal.
func standsBy(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "the server is on standby", func() error {
		if a, err := journalOf(s); err != nil || !a.Standby || a.LagSeconds != 0 || a.Error != "" {
			return fmt.Errorf("%+v, %v", a, err)
		}
		return nil
	})
}

// journaledBefore is the moment before which everything is journaled, as the server says,
// and the chain that it writes.
func journaledBefore(t *testing.T, s *harness.Server) (time.Time, int) {
	t.Helper()
	asked := time.Now()
	a, err := journalOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return asked.Add(-time.Duration(a.LagSeconds * float64(time.Second))), a.Chain
}

// restoresLoad restores the journal into a server with an etcd of its own, which must
// have what was acknowledged before safe.
func restoresLoad(t *testing.T, destination string, l *load, safe time.Time) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	harness.Contains(t, harness.Runs(t, harness.ExitOK, "backup", "restore", "--data-dir", dir, "--from", destination), "restored "+dir)
	s := harness.StartIn(t, dir)
	list, err := s.Client().CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, item := range list.Items {
		found[item.Name] = string(item.UID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, uid := range l.acknowledged {
		if l.answered[name].Before(safe) && found[name] != uid {
			t.Errorf("%s was acknowledged %s before what was reported as journaled, and is restored with the UID %q, want %q", name, safe.Sub(l.answered[name]), found[name], uid)
		}
	}
	s.Stop()
}

// TestJournalMovesToAnotherServer: of the servers on one etcd one writes the journal.
// When it is killed or stopped, the next one begins a chain, and no write is lost that was
// acknowledged before the reported lag.
func TestJournalMovesToAnotherServer(t *testing.T) {
	t.Parallel()
	destination := filepath.Join(t.TempDir(), "journal")
	config := onEtcd(t, endpoints(cluster(t, 1)), fmt.Sprintf("journal: {destination: %q, interval: 100ms}\n", destination))
	servers := []*harness.Server{harness.StartIn(t, filepath.Join(t.TempDir(), "data"), "--config", config)}
	writesAfter(t, servers[0], 0)
	for range 2 {
		s := harness.StartIn(t, identityOf(t, servers[0].Dir), "--config", config)
		standsBy(t, s)
		servers = append(servers, s)
	}
	harness.Contains(t, servers[1].Status(), destination+", written by the server that runs the controllers")
	l := startLoad(t, servers)
	l.goesOn("before anything happens")

	safe, chain := journaledBefore(t, servers[0])
	servers[0].Kill()
	restoresLoad(t, destination, l, safe)
	next := servers[1]
	harness.Eventually(t, "another server writes a later chain", func() error {
		for _, s := range servers[1:] {
			if a, err := journalOf(s); err == nil && !a.Standby && a.Chain > chain && a.LagSeconds < 5 {
				next = s
				return nil
			}
		}
		return fmt.Errorf("none yet")
	})
	l.goesOn("with another writer")
	other := servers[1]
	if next == other {
		other = servers[2]
	}
	standsBy(t, other)

	chain = writesAfter(t, next, chain)
	if code := next.Stop(); code != harness.ExitOK {
		t.Errorf("the server ended with exit code %d", code)
	}
	writesAfter(t, other, chain)
	servers[0] = harness.StartIn(t, servers[0].Dir, "--config", config)
	standsBy(t, servers[0])
	l.goesOn("with the last server")
	l.stop()
	harness.Eventually(t, "the journal has everything", func() error {
		if a, err := journalOf(other); err != nil || a.LagRevisions != 0 || a.LagSeconds != 0 {
			return fmt.Errorf("%+v, %v", a, err)
		}
		return nil
	})
	restoresLoad(t, destination, l, time.Now())
}
