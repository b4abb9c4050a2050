package etcd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// running is a member until end is called.
type running struct {
	*Member
	end func() error
}

func begin(ctx context.Context, config Config) (*running, error) {
	m, end, err := Start(ctx, config)
	return &running{m, end}, err
}

// start starts a member that does not sync: no test needs it, and on a slow disk the tests
// would take minutes.
func start(t *testing.T, dir string) *running {
	t.Helper()
	return startWith(t, Config{Dir: dir, QuotaBytes: 64 << 20, Logger: zap.NewNop()})
}

func startWith(t *testing.T, config Config) *running {
	t.Helper()
	m, err := begin(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func put(t *testing.T, m *running, key, value string) {
	t.Helper()
	if _, err := m.Client().Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func stop(t *testing.T, m *running) {
	t.Helper()
	if err := m.end(); err != nil {
		t.Fatal(err)
	}
}

func TestWatchersAreIndependent(t *testing.T) {
	t.Parallel()
	m := start(t, filepath.Join(t.TempDir(), "etcd"))
	defer stop(t, m)
	first, second := m.NewWatcher(), m.NewWatcher()
	events := second.Watch(t.Context(), "key")
	_ = first.Close() // says that it was cancelled, which is what closing does
	put(t, m, "key", "value")
	if response := <-events; len(response.Events) != 1 || string(response.Events[0].Kv.Value) != "value" {
		t.Errorf("got %+v", response)
	}
	_ = second.Close() // as above
}

// TestReadsWaitForTheElection: etcd fails the reads that wait while the member is elected.
func TestReadsWaitForTheElection(t *testing.T) {
	t.Parallel()
	m, err := begin(t.Context(), Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 64 << 20, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, m)
	if _, err := m.Client().Get(t.Context(), "key"); err != nil {
		t.Errorf("a read right after the start: %v", err)
	}
}

func TestAReadyMemberNeedsNoWait(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	defer stop(t, m)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // select takes any of the channels that are ready
		if err := m.WaitReady(ended); err != nil {
			t.Fatalf("of a ready member it said: %v", err)
		}
	}
}

// TestNoTurnForEndedRequests: a stop ends requests that wait for a turn, and gives them
// the turn of another one.
func TestNoTurnForEndedRequests(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	defer stop(t, m)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // select takes any of the channels that are ready
		if _, err := m.Snapshot(ended); err == nil {
			t.Fatal("a snapshot is made")
		}
	}
	snapshot, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Close(); err != nil {
		t.Error(err)
	}
}

// TestRestartsOverAGrowingLog: each election comes while the log is applied.
func TestRestartsOverAGrowingLog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "[a-z]*", "etcd") // a name like any other
	for i := range 20 {
		m := start(t, dir)
		for j := range 30 {
			put(t, m, fmt.Sprintf("key-%d-%d", i, j), "value")
		}
		stop(t, m)
	}
	m := start(t, dir)
	defer stop(t, m)
	if got, err := m.Client().Get(t.Context(), "key-", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || got.Count != 600 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestFatalErrorEndsTheMemberOnly: etcd writes fatal lines on
// goroutines of its own, and may hold its locks then.
func TestFatalErrorEndsTheMemberOnly(t *testing.T) {
	t.Parallel()
	m := start(t, filepath.Join(t.TempDir(), "etcd"))
	locked := make(chan struct{})
	go func() {
		m.etcd.Server.Backend().BatchTx().Lock() // as a commit that fails
		close(locked)
	}()
	<-locked
	go m.etcd.GetLogger().Fatal("failed to save", zap.Error(errors.New("no space left")), zap.String("path", "db"))
	<-m.Failed()
	if got, want := m.end(), "failed to save: no space left (path=db)"; got == nil || got.Error() != want {
		t.Errorf("it ended with %v, want %q", got, want)
	}
}
