package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// silentKV is an etcd that does not answer reads while it is set.
type silentKV struct {
	clientv3.KV
	silent atomic.Bool
}

func (s *silentKV) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if s.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.KV.Get(ctx, key, options...)
}

// TestSilentEtcd: while etcd does not answer the account says that the lag is not known, and
// its seconds grow.
func TestSilentEtcd(t *testing.T) {
	t.Parallel()
	kv := &silentKV{}
	f := start(t, NewDirectory(t.TempDir()), t.TempDir(), func(c *Config) {
		connect := c.Connect
		c.Connect = func() storage.Connection {
			connection := connect()
			client := *connection.Client
			kv.KV, client.KV, connection.Client = client.KV, kv, &client
			return connection
		}
	})
	f.history(1)
	f.caughtUp()
	kv.silent.Store(true)
	before := f.writer.Account(t.Context())
	after := f.writer.Account(t.Context())
	for _, a := range []Account{before, after} {
		if !a.LagUnknown || a.LagSeconds == 0 || !strings.Contains(a.Error, "the lag is not known") {
			t.Errorf("while etcd does not answer: %+v", a)
		}
	}
	if after.LagSeconds <= before.LagSeconds {
		t.Errorf("the lag was %f seconds and is %f", before.LagSeconds, after.LagSeconds)
	}
	kv.silent.Store(false)
	f.awaitAccount("the lag is known again", func(a Account) bool { return !a.LagUnknown && a.LagSeconds == 0 && a.Error == "" })
}

// TestLagInMetrics: the metrics have the lag, although the status is not asked for.
func TestLagInMetrics(t *testing.T) {
	t.Parallel()
	store := &failing{Store: NewDirectory(t.TempDir())}
	f := start(t, store, t.TempDir(), nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.writer.Metrics()...)
	f.caughtUp()
	store.down.Store(true)
	f.history(3)
	await(t, "the metrics have the lag", func() error {
		families, err := registry.Gather()
		if err != nil {
			return err
		}
		values := map[string]float64{}
		for _, family := range families {
			if name, ours := strings.CutPrefix(family.GetName(), "kube_hyper_mini_journal_"); ours {
				values[name] = family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		for _, name := range []string{"lag_seconds", "lag_revisions"} {
			if values[name] <= 0 {
				return fmt.Errorf("%s is missing in %v", name, values)
			}
		}
		return nil
	})
}

// TestLagWarning: a lag of more than ten intervals and 10 s is a warning.
func TestLagWarning(t *testing.T) {
	for seconds, want := range map[int]bool{8: false, 25: false, 31: true} {
		w := NewWriter(Config{Store: NewDirectory(t.TempDir()), Interval: 3 * time.Second})
		w.ledger.recordChain(1, true, 5, time.Now().Add(time.Duration(-seconds)*time.Second))
		w.ledger.recordRevision(time.Now(), 6)
		if a := w.ledger.read(0); a.Lagging != want || strings.Contains(a.Warning, "slow, or does not answer") != want {
			t.Errorf("%d s behind: %+v", seconds, a)
		}
	}
}

// TestLagAfterARestore: while a new chain of a restored etcd has no base, the lag counts from the start
// of the server, and not from the last change before, and is no warning.
func TestLagAfterARestore(t *testing.T) {
	t.Parallel()
	f := start(t, NewDirectory(t.TempDir()), t.TempDir(), nil)
	f.history(1)
	f.caughtUp()
	f.stopWriter()
	f.history(3)
	f.compact(revision(t, f)) // as a restore does
	f.config.Base = func(context.Context, string, string, string) (*backup.Manifest, error) {
		return nil, errors.New("none")
	}
	began := time.Now()
	f.startWriter()
	await(t, "a new chain is begun", func() error {
		a := f.writer.Account(t.Context())
		if limit := time.Since(began).Seconds(); a.LagSeconds > limit {
			t.Errorf("%f s after the start: %+v", limit, a)
		}
		if a.Chain != 2 {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}
