package datastore

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// keeperTimeout bounds the wait for maintenance that calls a member which has failed.
const keeperTimeout = 3 * time.Second

// Embedded is the etcd member inside the process.
type Embedded struct {
	config Config
	// Listener serves API servers in other processes; nil for none. Set it before
	// Run.
	Listener *etcd.Listener

	member *etcd.Member
	keeper *maintenance.Keeper
}

// Run implements [Datastore]. It is ready before the election, during which the API
// servers are built; see WaitReady. The data directory stays locked until etcd has closed
// it, which may be after Run returns; see [etcd.Member.Run].
func (e *Embedded) Run(ctx context.Context, ready func()) error {
	if err := e.prepare(); err != nil {
		return err
	}
	// A member that is ready is closed when the keeper has ended.
	memberCtx, closeMember := context.WithCancelCause(context.WithoutCancel(ctx))
	defer closeMember(nil)
	unlink := context.AfterFunc(ctx, func() { closeMember(context.Cause(ctx)) })
	keeperCtx, stopKeeper := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	err := e.member.Run(memberCtx, func() {
		if !unlink() {
			return // it is being closed
		}
		keeping.Go(func() {
			if e.member.WaitReady(keeperCtx) == nil { // its error is that of WaitReady and of Run
				e.keeper.Run(keeperCtx)
			}
			<-keeperCtx.Done()
			closeMember(context.Cause(ctx))
		})
		ready()
	})
	stopKeeper()
	lifecycle.WaitAtMost(&keeping, keeperTimeout) // the locks of a member that has failed are held for ever
	return err
}

// prepare makes the member and its keeper.
func (e *Embedded) prepare() error {
	data, defragment := e.config.Dir, e.config.Embedded.Defragment
	dir := data.Join("etcd")
	if data.Previous != nil && !etcd.Exists(dir) {
		return fmt.Errorf("%s was used before, but %s has no data: move the data back there, or restore a backup "+
			"with \"kube-hyper-mini backup restore --data-dir %s FILE\"; to start with an empty database, remove %s",
			data.Path(), dir, logging.ShellWord(data.Path()), data.Join("version.json"))
	}
	if data.Interrupted {
		e.config.Log.Info("the first start was interrupted before the server was ready: creating etcd's data again",
			"dir", dir)
		if err := etcd.Discard(dir); err != nil {
			return err
		}
	}
	e.member = etcd.New(etcd.Config{
		Dir:        dir,
		QuotaBytes: e.config.Embedded.QuotaBackend.Value(),
		Fsync:      e.config.Embedded.Fsync,
		Logger:     logging.Zap(e.config.Log, e.config.Verbosity),
		Listener:   e.Listener,
		Closed:     data.Use(),
	})
	e.keeper = maintenance.New(maintenance.Config{
		Database: e.member, Dir: dir, Log: e.config.Log,
		Threshold: float64(defragment.FreePercent) / 100, MinimumSize: defragment.MinimumSize.Value(),
		MaximumInUse: defragment.MaximumInUse.Value(), Window: defragment.Window.Contains,
	})
	return nil
}

// Connection implements [Datastore].
func (e *Embedded) Connection() storage.Connection {
	return storage.Connection{
		Client: e.member.Client(), NewWatcher: e.member.NewWatcher, Endpoint: "embedded", Single: true,
		Gate: e.keeper, Dial: e.member.Dial,
	}
}

// WaitReady implements [Datastore]. It also waits for the first check of the keeper,
// which ends a refusal of writes after the quota was raised.
func (e *Embedded) WaitReady(ctx context.Context) error {
	if err := e.member.WaitReady(ctx); err != nil {
		return err
	}
	select {
	case <-e.keeper.Checked():
		return nil
	case <-e.member.Failed(): // the keeper may wait for it for ever
		return e.member.Err()
	case <-ctx.Done():
		return fmt.Errorf("wait for the first check of the database: %w", context.Cause(ctx))
	}
}

// Snapshot implements [Datastore].
func (e *Embedded) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	return e.member.Snapshot(ctx)
}

// Maintenance implements [Datastore].
func (e *Embedded) Maintenance() *maintenance.Keeper { return e.keeper }

// Shared implements [Datastore].
func (e *Embedded) Shared() bool { return false }

// ReserveIdentity implements [Datastore].
func (e *Embedded) ReserveIdentity(context.Context) (bool, error) { return true, nil }

// Register implements [Datastore].
func (e *Embedded) Register(context.Context) error { return nil }

// Alone implements [Datastore].
func (e *Embedded) Alone(context.Context) (bool, error) { return true, nil }

// CheckRelease implements [Datastore]. The stamp of the data directory is checked
// instead, by datadir.Open.
func (e *Embedded) CheckRelease(context.Context, datadir.Stamp) error { return nil }

// RecordRelease implements [Datastore]. The stamp of the data directory has it.
func (e *Embedded) RecordRelease(context.Context, datadir.Stamp) error { return nil }

// Healthy reads a key. A member is also healthy during a defragmentation.
func (e *Embedded) Healthy(ctx context.Context) error {
	if _, err := e.member.Client().Get(ctx, "health"); err != nil && !e.keeper.Defragmenting() {
		return err
	}
	return nil
}
