package appliance

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// patience bounds the wait for what a failing test never does.
const patience = time.Minute

// handler calls f with each message of the log.
type handler struct {
	slog.Handler
	f func(message string)
}

// Enabled implements [slog.Handler].
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (h handler) Handle(_ context.Context, record slog.Record) error {
	h.f(record.Message)
	return nil
}

// runEtcd runs etcd on the data directory, calls electing before its first election after
// the message, and stops when it is ready. The backup from before an upgrade may have the
// election of an etcd on a copy.
func runEtcd(t *testing.T, path, after string, electing func()) {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir, cfg.Etcd.Embedded.Listen, cfg.Logging.Verbosity = path, "127.0.0.1:0", 2
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var follows, elected atomic.Bool
	elect := sync.OnceFunc(electing)
	log := slog.New(handler{slog.DiscardHandler, func(message string) {
		switch {
		case message == after:
			follows.Store(true)
		case follows.Load() && strings.Contains(message, "became candidate"):
			elect()
			elected.Store(true)
		case message == "ready":
			stop()
		}
	}})
	if err := RunEtcd(ctx, &Checked{config: cfg}, log); err != nil {
		t.Fatal(err)
	}
	if !elected.Load() {
		t.Error("etcd did not log its election")
	}
}

// TestEtcdTakesTheDataOver: the stamp is that of this release before etcd serves API
// servers, which write. If the process is then killed, or does not become ready, older
// releases refuse the data, and the next start makes no backup before the upgrade of what
// this release has changed.
func TestEtcdTakesTheDataOver(t *testing.T) {
	path := t.TempDir()
	taken := func() {
		deadline := time.After(patience)
		for {
			stamp, err := datadir.ReadStamp(path)
			if err == nil && stamp != nil && *stamp == datadir.CurrentStamp() {
				return
			}
			select {
			case <-deadline:
				t.Errorf("before the election, the stamp is %+v, %v", stamp, err)
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	runEtcd(t, path, "kube-hyper-mini etcd starts", taken)
	older := datadir.CurrentStamp()
	older.Version = "v0.0.1"
	if err := datadir.WriteStampFile(path, older); err != nil {
		t.Fatal(err)
	}
	runEtcd(t, path, "backup made before the upgrade", taken)
}
