package appliance

import (
	"context"
	"io"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// embeddedEtcd is the store inside the process.
type embeddedEtcd struct {
	config config.EmbeddedEtcd
	dir    string
	log    *slog.Logger
	level  int
	// listener is nil in the server, which alone uses the member.
	listener *etcd.Listener

	member *etcd.Member
	keeper *maintenance.Keeper
	died   chan error
	asked  chan struct{}
}

// Name implements [Component].
func (e *embeddedEtcd) Name() string { return "etcd" }

// Start implements [Component]. It does not wait for the election, which the
// API servers are built during; see waitReady.
func (e *embeddedEtcd) Start(context.Context) error {
	member, err := etcd.Start(etcd.Config{
		Dir:        e.dir,
		QuotaBytes: e.config.QuotaBackend.Value(),
		Fsync:      e.config.Fsync,
		Logger:     logging.Zap(e.log, e.level),
		Listener:   e.listener,
	})
	if err != nil {
		return err
	}
	e.member, e.died, e.asked = member, make(chan error, 1), make(chan struct{})
	e.keeper = maintenance.New(maintenance.Config{
		Database: member, Dir: e.dir, Log: e.log,
		Threshold: float64(e.config.Defragment.FreePercent) / 100, MinimumSize: e.config.Defragment.MinimumSize.Value(),
	})
	go func() {
		select {
		case <-e.asked:
		case <-member.Done():
			e.died <- member.Err()
		}
	}()
	return nil
}

// connection is how the API servers reach the member.
func (e *embeddedEtcd) connection() storage.Connection {
	return storage.Connection{
		Client: e.member.Client(), NewWatcher: e.member.NewWatcher, Endpoint: "embedded", Single: true,
		Refusal: e.keeper.Refusal, Busy: e.keeper.Defragmenting,
	}
}

func (e *embeddedEtcd) waitReady(ctx context.Context) error { return e.member.WaitReady(ctx) }

func (e *embeddedEtcd) snapshot(ctx context.Context) (io.ReadCloser, error) {
	return e.member.Snapshot(ctx)
}

func (e *embeddedEtcd) maintenance() *maintenance.Keeper { return e.keeper }

func (e *embeddedEtcd) servers() int { return 1 }

// Died implements [Component].
func (e *embeddedEtcd) Died() <-chan error { return e.died }

// Stop implements [Component].
func (e *embeddedEtcd) Stop(ctx context.Context) error {
	close(e.asked)
	return e.member.Stop(ctx)
}
