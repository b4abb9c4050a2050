package fleet

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
)

func startEtcd(t *testing.T) *clientv3.Client {
	t.Helper()
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 64 << 20, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	if err := member.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return member.Client()
}

// join registers a server until leave is called.
func join(t *testing.T, client *clientv3.Client, prefix string) (m *Member, leave func()) {
	t.Helper()
	m = New(client, prefix, slog.New(slog.DiscardHandler))
	stop, err := lifecycle.Begin(t.Context(), m.Run)
	if err != nil {
		t.Fatal(err)
	}
	return m, func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

func wantAlone(t *testing.T, m *Member, want bool) {
	t.Helper()
	if alone, err := m.Alone(t.Context()); err != nil || alone != want {
		t.Errorf("alone: %t, %v, want %t", alone, err, want)
	}
}

// TestAlone: servers that join and leave count at once, and those with other prefixes, also
// below or above, do not count.
func TestAlone(t *testing.T) {
	client := startEtcd(t)
	first, leaveFirst := join(t, client, "/registry")
	elsewhere, leaveElsewhere := join(t, client, "/registry/nested")
	wantAlone(t, first, true)
	wantAlone(t, elsewhere, true)
	second, leaveSecond := join(t, client, "/registry")
	wantAlone(t, first, false)
	wantAlone(t, second, false)
	leaveSecond()
	wantAlone(t, first, true)
	leaveFirst()
	leaveElsewhere()
	left, err := client.Get(t.Context(), "/kube-hyper-mini/", clientv3.WithPrefix())
	if err != nil || len(left.Kvs) != 0 {
		t.Errorf("left behind: %v, %v", left.Kvs, err)
	}
}

// hanging is a KV whose transactions wait while it is switched on.
type hanging struct {
	clientv3.KV
	on       atomic.Bool
	begun    chan struct{}
	released chan struct{}
}

func (h *hanging) Txn(ctx context.Context) clientv3.Txn {
	if h.on.Load() {
		h.begun <- struct{}{}
		<-h.released
	}
	return h.KV.Txn(ctx)
}

// TestAloneDuringARenewal: a renewal that hangs does not delay the requests that ask whether
// other servers are registered.
func TestAloneDuringARenewal(t *testing.T) {
	client := startEtcd(t)
	slow := &hanging{KV: client.KV, begun: make(chan struct{}), released: make(chan struct{})}
	own := *client
	own.KV = slow
	m, leave := join(t, &own, "/registry")
	slow.on.Store(true)
	renewed := make(chan error, 1)
	go func() { renewed <- m.renew(t.Context()) }()
	<-slow.begun
	wantAlone(t, m, true)
	slow.on.Store(false)
	close(slow.released)
	if err := <-renewed; err != nil {
		t.Error(err)
	}
	wantAlone(t, m, true)
	leave()
}

// TestRenew: a renewed key has a new lease, and one that has expired is written
// again.
func TestRenew(t *testing.T) {
	client := startEtcd(t)
	m, leave := join(t, client, "/registry")
	defer leave()
	lease := func() int64 {
		list, err := client.Get(t.Context(), m.prefix, clientv3.WithPrefix())
		if err != nil || len(list.Kvs) != 1 {
			t.Fatalf("the keys are %v, %v", list.Kvs, err)
		}
		return list.Kvs[0].Lease
	}
	before := lease()
	if err := m.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := lease()
	if before == 0 || after == 0 || before == after {
		t.Errorf("the lease was %d and is %d", before, after)
	}
	if _, err := client.Revoke(t.Context(), clientv3.LeaseID(after)); err != nil {
		t.Fatal(err)
	}
	if err := m.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease()
	wantAlone(t, m, true)
}
