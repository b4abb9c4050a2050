package appliance

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// embeddedEtcd is the store inside the process.
type embeddedEtcd struct {
	config config.EmbeddedEtcd
	data   *datadir.Dir
	log    *slog.Logger
	level  int
	// listener is nil in the server, which alone uses the member.
	listener *etcd.Listener

	member *etcd.Member
	died   chan error
	asked  chan struct{}
	keeper *maintenance.Keeper
	rest   context.CancelFunc // of the keeper
	rested chan struct{}      // when it has ended
}

// Name implements [Component].
func (e *embeddedEtcd) Name() string { return "etcd" }

// Start implements [Component]. It does not wait for the election, which the
// API servers are built during; see waitReady.
func (e *embeddedEtcd) Start(context.Context) error {
	dir := e.data.Join("etcd")
	if e.data.Previous != nil && !etcd.Exists(dir) {
		return fmt.Errorf("%s was used before, and %s has no data any more: bring it back, or restore a backup with \"kube-hyper-mini backup restore FILE\"; to start empty on purpose, or after an external etcd, remove %s",
			e.data.Path(), dir, e.data.Join("version.json"))
	}
	if e.data.Interrupted {
		e.log.Info("the first start was interrupted before anything was served, etcd's data is made again", "dir", dir)
		if err := etcd.Discard(dir); err != nil {
			return err
		}
	}
	addProcessors()
	member, err := etcd.Start(etcd.Config{
		Dir:        dir,
		QuotaBytes: e.config.QuotaBackend.Value(),
		Fsync:      e.config.Fsync,
		Logger:     logging.Zap(e.log, e.level),
		Listener:   e.listener,
	})
	if err != nil {
		return err
	}
	e.member, e.died, e.asked = member, make(chan error, 1), make(chan struct{})
	e.keep()
	go func() {
		select {
		case <-e.asked:
		case <-member.Done():
			e.died <- member.Err()
		}
	}()
	return nil
}

// keep looks after the database from the election to the stop.
func (e *embeddedEtcd) keep() {
	e.keeper = maintenance.New(maintenance.Config{
		Database: e.member, Dir: e.data.Join("etcd"), Log: e.log,
		Threshold: float64(e.config.Defragment.FreePercent) / 100, MinimumSize: e.config.Defragment.MinimumSize.Value(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	e.rest, e.rested = cancel, make(chan struct{})
	go func() {
		defer close(e.rested)
		if e.member.WaitReady(ctx) == nil { // its error is that of waitReady and Died
			e.keeper.Run(ctx)
		}
	}()
}

// connection is how the API servers reach the member.
func (e *embeddedEtcd) connection() storage.Connection {
	return storage.Connection{
		Client: e.member.Client(), NewWatcher: e.member.NewWatcher, Endpoint: "embedded", Single: true,
		Refusal: e.keeper.Refusal, Busy: e.keeper.Defragmenting, Enter: e.keeper.Enter,
	}
}

// waitReady also waits until the keeper has looked: a quota that was raised
// ends the refusal of writes.
func (e *embeddedEtcd) waitReady(ctx context.Context) error {
	if err := e.member.WaitReady(ctx); err != nil {
		return err
	}
	select {
	case <-e.keeper.Looked():
		return nil
	case <-e.member.Done():
		return e.member.Err()
	case <-ctx.Done():
		return fmt.Errorf("wait until the database is looked after: %w", context.Cause(ctx))
	}
}

func (e *embeddedEtcd) snapshot(ctx context.Context) (io.ReadCloser, error) {
	return e.member.Snapshot(ctx)
}

func (e *embeddedEtcd) maintenance() *maintenance.Keeper { return e.keeper }

func (e *embeddedEtcd) servers() int { return 1 }

func (e *embeddedEtcd) register(context.Context) error { return nil }

func (e *embeddedEtcd) alone(context.Context) (bool, error) { return true, nil }

// Died implements [Component].
func (e *embeddedEtcd) Died() <-chan error { return e.died }

// Stop implements [Component].
func (e *embeddedEtcd) Stop(ctx context.Context) error {
	close(e.asked)
	e.rest()
	select {
	case <-e.rested:
	case <-e.member.Done(): // by itself; the keeper may wait for it in vain
	case <-ctx.Done():
		return fmt.Errorf("wait for a defragmentation to end: %w", context.Cause(ctx))
	}
	return e.member.Stop(ctx)
}
