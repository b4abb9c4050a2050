package appliance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// store is where the objects are kept.
type store interface {
	// run is a [lifecycle.Part].
	run(ctx context.Context, ready func()) error
	// connection is how the API servers reach it, once it has started.
	connection() storage.Connection
	// waitReady returns when the store takes writes.
	waitReady(ctx context.Context) error
	// snapshot streams the whole store with its sum at the end, as etcd's
	// Maintenance.Snapshot does.
	snapshot(ctx context.Context) (io.ReadCloser, error)
	// maintenance is who looks after a store that is run here, once it has
	// started; nil if others do.
	maintenance() *maintenance.Keeper
	// servers is how many API servers may use it.
	servers() int
	// register adds the server of this process to those that use the store. It
	// comes before the server's first read.
	register(ctx context.Context) error
	// alone says whether no other server uses the store at this moment. What
	// only a single server may do asks it.
	alone(ctx context.Context) (bool, error)
}

// newStore is the one that the configuration names.
func newStore(cfg *config.ServerConfiguration, dir *datadir.Dir, log *slog.Logger) store {
	if len(cfg.Etcd.External.Endpoints) > 0 {
		return &externalEtcd{config: cfg.Etcd.External, log: log, level: cfg.Logging.Verbosity}
	}
	return &embeddedEtcd{config: cfg.Etcd.Embedded, data: dir, log: log, level: cfg.Logging.Verbosity}
}

// leaveTimeout bounds how long a stop tries to remove this server from those
// that use the store. Its entry expires by itself.
const leaveTimeout = 2 * time.Second

// several stands for "more than one, nobody here knows how many".
const several = 2

// externalEtcd is a cluster that is run elsewhere.
type externalEtcd struct {
	config config.ExternalEtcd
	log    *slog.Logger
	level  int

	client *clientv3.Client
	member *fleet.Member // after register
}

// run keeps a connection until ctx ends. A lost one is made again, and readiness
// follows it.
func (e *externalEtcd) run(ctx context.Context, ready func()) error {
	client, err := etcd.Connect(ctx, etcd.External{
		Endpoints: e.config.Endpoints, CAFile: e.config.CAFile, CertFile: e.config.CertFile, KeyFile: e.config.KeyFile,
		Logger: logging.Zap(e.log, e.level),
	})
	if err != nil {
		return err
	}
	e.client = client
	ready()
	<-ctx.Done()
	if e.member != nil {
		leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		e.member.Leave(leaving)
	}
	if err := client.Close(); err != nil {
		return fmt.Errorf("close the connection to %s: %w", strings.Join(e.config.Endpoints, ", "), err)
	}
	return nil
}

func (e *externalEtcd) connection() storage.Connection {
	return storage.Connection{
		Client:     e.client,
		NewWatcher: func() clientv3.Watcher { return clientv3.NewWatcher(e.client) },
		Endpoint:   e.config.Endpoints[0],
		Members:    e.config.Endpoints,
	}
}

func (e *externalEtcd) waitReady(context.Context) error { return nil } // run has waited

func (e *externalEtcd) snapshot(ctx context.Context) (io.ReadCloser, error) {
	return e.client.Snapshot(ctx)
}

func (e *externalEtcd) maintenance() *maintenance.Keeper { return nil }

func (e *externalEtcd) servers() int { return several }

func (e *externalEtcd) register(ctx context.Context) (err error) {
	e.member, err = fleet.Join(ctx, e.client, e.config.Prefix, e.log)
	return err
}

func (e *externalEtcd) alone(ctx context.Context) (bool, error) { return e.member.Alone(ctx) }
