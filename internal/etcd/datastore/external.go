package datastore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd/maintenance"
	"kube-hyper-mini.io/kube-hyper-mini/internal/fleet"
	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	upstream "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// memberTimeout bounds how long a snapshot waits for one member.
const memberTimeout = 10 * time.Second

// External is an etcd cluster of other processes.
type External struct {
	config    Config
	connected chan struct{} // closed when client is set
	client    *clientv3.Client
	member    *fleet.Member // nil before Register
	leave     func() error  // ends the registration; nil before Register
}

// Run implements [Datastore]. The client reconnects by itself; without a connection,
// /readyz fails.
func (e *External) Run(ctx context.Context, ready func()) error {
	client, err := e.connect(ctx, e.config.External.Endpoints...)
	if err != nil {
		return err
	}
	e.client = client
	close(e.connected)
	ready()
	<-ctx.Done()
	if e.leave != nil {
		err = e.leave()
	}
	if closeErr := client.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the connection to %s: %w",
			strings.Join(e.config.External.Endpoints, ", "), closeErr))
	}
	return err
}

// Connection implements [Datastore].
func (e *External) Connection() storage.Connection {
	return storage.Connection{
		Client:     e.client,
		NewWatcher: func() clientv3.Watcher { return clientv3.NewWatcher(e.client) },
		Endpoint:   e.config.External.Endpoints[0],
		Members:    e.config.External.Endpoints,
		Dial: func(context.Context) (net.Conn, error) {
			return nil, errors.New("connect to etcd in this process: it runs elsewhere")
		},
	}
}

// WaitReady implements [Datastore].
func (e *External) WaitReady(context.Context) error { return nil } // Run has waited

// Snapshot implements [Datastore]. It is not older than the call.
func (e *External) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	client, err := e.currentMember(ctx)
	if err != nil {
		return nil, err
	}
	stream, err := client.Snapshot(ctx)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	reader, err := upstream.SnapshotReader(stream)
	if err != nil {
		_, _ = stream.Close(), client.Close() // it has ended
		return nil, fmt.Errorf("%w: the store at %s makes no snapshots, as kine: back up its database with the tools "+
			"of the database, and the directories pki and encryption of this server",
			errors.ErrUnsupported, strings.Join(e.config.External.Endpoints, ", "))
	}
	return &snapshot{reader, stream, client}, nil
}

// snapshot closes its client, too.
type snapshot struct {
	io.Reader
	stream io.Closer
	client *clientv3.Client
}

// Close implements io.Closer.
func (s *snapshot) Close() error { return errors.Join(s.stream.Close(), s.client.Close()) }

// currentMember returns a client of one member that has answered a linearizable read:
// the member has all that was committed before. Snapshots are read from one member,
// which may lag behind the others.
func (e *External) currentMember(ctx context.Context) (*clientv3.Client, error) {
	var errs []error
	for _, endpoint := range e.config.External.Endpoints {
		attempt, cancel := context.WithTimeoutCause(ctx, memberTimeout, fmt.Errorf("no answer within %s", memberTimeout))
		client, err := e.connect(attempt, endpoint)
		cancel()
		if err == nil {
			return client, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// connect returns a client of the members at the endpoints when one has answered.
func (e *External) connect(ctx context.Context, endpoints ...string) (*clientv3.Client, error) {
	external := e.config.External
	return etcd.Connect(ctx, etcd.External{
		Endpoints: endpoints, CAFile: external.CAFile, CertFile: external.CertFile, KeyFile: external.KeyFile,
		Logger: logging.Zap(e.config.Log, e.config.Verbosity),
	})
}

// Maintenance implements [Datastore].
func (e *External) Maintenance() *maintenance.Keeper { return nil }

// Shared implements [Datastore].
func (e *External) Shared() bool { return true }

// ReserveIdentity implements [Datastore].
func (e *External) ReserveIdentity(ctx context.Context) (bool, error) {
	select {
	case <-e.connected:
	case <-ctx.Done():
		return false, fmt.Errorf("wait for etcd: %w", context.Cause(ctx))
	}
	return fleet.ReserveIdentity(ctx, e.client, e.config.External.Prefix)
}

// Register implements [Datastore].
func (e *External) Register(ctx context.Context) error {
	member := fleet.New(e.client, e.config.External.Prefix, e.config.Log)
	leave, err := lifecycle.Begin(ctx, member.Run)
	if err != nil {
		return err
	}
	e.member, e.leave = member, leave
	return nil
}

// CheckRelease implements [Datastore].
func (e *External) CheckRelease(ctx context.Context, current datadir.Stamp) error {
	return etcd.CheckRelease(ctx, e.client, e.config.External.Prefix, current)
}

// RecordRelease implements [Datastore].
func (e *External) RecordRelease(ctx context.Context, current datadir.Stamp) error {
	return etcd.RecordRelease(ctx, e.client, e.config.External.Prefix, current)
}

// Alone implements [Datastore].
func (e *External) Alone(ctx context.Context) (bool, error) {
	if e.member == nil {
		return false, errors.New("count the servers in etcd: this one is not registered yet")
	}
	return e.member.Alone(ctx)
}
