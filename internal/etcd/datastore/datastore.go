package datastore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// Datastore stores the objects. Call its methods other than Run, Shared and
// ReserveIdentity when it is ready, from any goroutine.
type Datastore interface {
	// Run is the function of a [lifecycle.Part].
	Run(ctx context.Context, ready func()) error
	// Connection connects the API servers with the store.
	Connection() storage.Connection
	// WaitReady returns when the store accepts writes.
	WaitReady(ctx context.Context) error
	// Snapshot streams the whole store and its checksum, as Maintenance.Snapshot of
	// etcd does. The error is errors.ErrUnsupported for kine, which has none.
	Snapshot(ctx context.Context) (io.ReadCloser, error)
	// Maintenance maintains the embedded member; nil for an external cluster.
	Maintenance() *maintenance.Keeper
	// Shared reports whether other servers can use the store, now or later. The
	// election of the controllers depends on it.
	Shared() bool
	// ReserveIdentity reports whether the server of this process may make new authorities
	// and keys: no other server has published its own in the store. The error is
	// [fleet.ErrReserved] if one is about to. It may be called before Run is ready, and then
	// waits for it.
	ReserveIdentity(ctx context.Context) (bool, error)
	// Register adds the server of this process to those that use the store. Call
	// it before the server's first read.
	Register(ctx context.Context) error
	// Alone reports whether no other server uses the store at this moment.
	Alone(ctx context.Context) (bool, error)
	// CheckRelease returns an error if a release has written to the store with which
	// this release, current, is not compatible.
	CheckRelease(ctx context.Context, current datadir.Stamp) error
	// RecordRelease records that this release writes to the store, for CheckRelease
	// of other releases.
	RecordRelease(ctx context.Context, current datadir.Stamp) error
}

// Config configures a [Datastore].
type Config struct {
	// External is that of an etcd cluster; without endpoints, the store is embedded.
	External config.ExternalEtcd
	Embedded config.EmbeddedEtcd
	// Dir is the data directory, which has the embedded member.
	Dir *datadir.Dir
	Log *slog.Logger
	// Verbosity is that of the log.
	Verbosity int
	// Record records events of the API; nil where there is none.
	Record logging.EventFunc
}

// New returns the store that the configuration names.
func New(cfg Config) Datastore {
	if len(cfg.External.Endpoints) > 0 {
		return &External{config: cfg, connected: make(chan struct{})}
	}
	return NewEmbedded(cfg)
}

// NewEmbedded returns the member in the data directory.
func NewEmbedded(cfg Config) *Embedded { return &Embedded{config: cfg} }

const (
	// readingInterval is the time between two reports of a start that reads a large
	// database.
	readingInterval = 10 * time.Second
	// The start timeout is extended for at most readingBase and the time that the
	// database takes at readingRate bytes per second. Then the service manager ends
	// a start that hangs.
	readingBase = 5 * time.Minute
	readingRate = 4 << 20
)

// ReadWithProgress calls read, which reads the embedded database in dir. While that takes
// long, it logs progress and extends the start timeout of the service manager: it
// calls notify with states of systemd's sd_notify protocol.
func ReadWithProgress(ctx context.Context, dir string, log *slog.Logger,
	notify func(state string), read func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { reportReading(ctx, dir, log, notify, readingInterval) })
	defer func() {
		cancel()
		reporting.Wait()
	}()
	return read()
}

// reportReading reports in each interval until ctx ends or the time for reading is
// over.
func reportReading(ctx context.Context, dir string, log *slog.Logger,
	notify func(state string), interval time.Duration) {
	began := time.Now()
	for {
		if reconcile.Pause(ctx, interval); ctx.Err() != nil {
			return
		}
		size, err := datadir.TreeSize(dir)
		if err != nil {
			log.Warn("the size of the database is unknown", "error", err)
		}
		took := time.Since(began).Round(time.Second)
		log.Info("still reading the database", "bytes", size, "took", took.String())
		if time.Since(began) > readingBase+time.Duration(size/readingRate)*time.Second {
			log.Warn("reading the database takes too long: the start timeout is not extended further")
			return
		}
		notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=reading the database (%s), for %s",
			(3 * interval).Microseconds(), datadir.Size(size), took))
	}
}
