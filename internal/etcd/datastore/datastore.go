package datastore

import (
	"context"
	"io"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
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
