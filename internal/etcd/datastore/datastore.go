package datastore

import (
	"context"
	"io"
	"log/slog"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// Datastore is where the objects are kept. Its methods but Run may be called once
// it runs, from any goroutine.
type Datastore interface {
	// Run is that of a [lifecycle.Part].
	Run(ctx context.Context, ready func()) error
	// Connection is how the API servers reach the store.
	Connection() storage.Connection
	// WaitReady returns when the store takes writes.
	WaitReady(ctx context.Context) error
	// Snapshot streams the whole store with its sum at the end, as etcd's
	// Maintenance.Snapshot does.
	Snapshot(ctx context.Context) (io.ReadCloser, error)
	// Maintenance maintains a store that runs in this process; nil if it is
	// maintained elsewhere.
	Maintenance() *maintenance.Keeper
	// Servers is how many API servers may use the store.
	Servers() int
	// Register adds the server of this process to those that use the store. Call
	// it before the server's first read.
	Register(ctx context.Context) error
	// Alone says whether no other server uses the store at this moment. What only
	// a single server may do asks it.
	Alone(ctx context.Context) (bool, error)
}

// New returns the store that the configuration names.
func New(cfg *config.ServerConfiguration, dir *datadir.Dir, log *slog.Logger) Datastore {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return &External{config: cfg.Etcd.External, log: log, level: cfg.Logging.Verbosity}
	}
	return NewEmbedded(cfg, dir, log)
}

// NewEmbedded returns the member in the data directory.
func NewEmbedded(cfg *config.ServerConfiguration, dir *datadir.Dir, log *slog.Logger) *Embedded {
	return &Embedded{config: cfg.Etcd.Embedded, data: dir, log: log, level: cfg.Logging.Verbosity}
}

// Several stands for an unknown number of servers above one.
const Several = 2
