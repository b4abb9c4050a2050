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
	keeper *maintenance.Keeper
}

// run runs the member until ctx ends. It is ready before the election, during
// which the API servers are built; see waitReady.
func (e *embeddedEtcd) run(ctx context.Context, ready func()) error {
	if err := e.open(ctx); err != nil {
		return err
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		if e.member.WaitReady(ctx) == nil { // its error is that of waitReady and of run
			e.keeper.Run(ctx)
		}
	}()
	ready()
	select {
	case <-ctx.Done():
	case <-e.member.Done():
		return e.member.Err()
	}
	select {
	case <-kept:
	case <-e.member.Done(): // by itself; the keeper may wait for it in vain
	}
	return e.member.Stop(context.WithoutCancel(ctx))
}

// open starts the member.
func (e *embeddedEtcd) open(ctx context.Context) error {
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
	member, err := etcd.Start(ctx, etcd.Config{
		Dir:        dir,
		QuotaBytes: e.config.QuotaBackend.Value(),
		Fsync:      e.config.Fsync,
		Logger:     logging.Zap(e.log, e.level),
		Listener:   e.listener,
	})
	if err != nil {
		return err
	}
	e.member = member
	e.keeper = maintenance.New(maintenance.Config{
		Database: member, Dir: dir, Log: e.log,
		Threshold: float64(e.config.Defragment.FreePercent) / 100, MinimumSize: e.config.Defragment.MinimumSize.Value(),
	})
	return nil
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
