package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apierrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/utils/clock"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Connection is how to reach etcd, embedded or not.
type Connection struct {
	// Client is shared by everything; its owner closes it after [Storage.Close].
	Client *clientv3.Client
	// NewWatcher makes a watcher with its own stream on that client.
	NewWatcher func() clientv3.Watcher
	// Endpoint names the store in metrics and logs.
	Endpoint string
	// Members are the endpoints of a store with several, to ask for its status.
	Members []string
	// Single says that there is one member, in this process. It acknowledges a
	// write when it has applied it, so that what it reads locally is as fresh
	// as what a quorum would confirm.
	Single bool
	// Dial connects to the gRPC API of a store in this process; nil for one that is
	// run elsewhere. It is for clients that upstream makes by itself.
	Dial func(ctx context.Context) (net.Conn, error)
	// Gate regulates access; nil for a store that is maintained elsewhere.
	Gate Gate
}

// Config says how to store.
type Config struct {
	// Prefix of all keys.
	Prefix string
	// CompactionInterval is how much history is kept; 0 never compacts.
	CompactionInterval time.Duration
	// Timeout bounds a health check.
	Timeout time.Duration
}

// Storage is the one place that API servers store through. It is safe for
// concurrent use.
type Storage struct {
	connection Connection
	config     Config
	compactor  compactor
	population *Population
	background context.Context // ends with Close
	cancel     context.CancelFunc

	mu       sync.Mutex
	prefixes map[schema.GroupResource]string
	closed   bool
	running  sync.WaitGroup
}

// compactor is what etcd3.NewCompactor returns.
type compactor interface {
	etcd3.Compactor
	Stop()
}

// New starts what upstream starts for every connection: the compactor. Close
// ends it.
func New(connection Connection, config Config, log *slog.Logger) *Storage {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Storage{
		connection: connection,
		config:     config,
		compactor:  etcd3.NewCompactor(connection.Client, config.CompactionInterval, clock.RealClock{}, nil),
		background: ctx,
		cancel:     cancel,
		prefixes:   map[schema.GroupResource]string{},
	}
	s.population = s.newPopulation(log)
	store.DetectFeatures(ctx, connection.Endpoint, connection.Status)
	return s
}

// Close stops the background work and waits for it. The stores that were
// built must have been destroyed before.
func (s *Storage) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.compactor.Stop()
	s.running.Wait()
}

// Dial is that of the connection.
func (s *Storage) Dial() func(ctx context.Context) (net.Conn, error) { return s.connection.Dial }

// run runs f until Close, which waits for it.
func (s *Storage) run(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Go(func() { f(s.background) })
	}
}

// Population counts the objects of each resource from its first use on.
func (s *Storage) Population() *Population { return s.population }

// Health reads a key through the quorum. A store that is
// defragmented is healthy.
func (s *Storage) Health(ctx context.Context) error {
	if ctx.Err() != nil { // an etcd in this process may answer all the same
		return fmt.Errorf("read from etcd: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	gate := s.connection.gate()
	before := gate.Defragmenting()
	if err := store.Probe(ctx, s.connection.Client, s.config.Prefix); err != nil && !before && !gate.Defragmenting() {
		return fmt.Errorf("read from etcd: %w", err)
	}
	return nil
}

// memberTimeout is what a member has to tell its status before the next one is
// asked.
const memberTimeout = 2 * time.Second

// Status asks the members in turn until one answers.
func (c Connection) Status(ctx context.Context) (*clientv3.StatusResponse, error) {
	members := c.Members
	if len(members) == 0 {
		members = []string{c.Endpoint}
	}
	var errs []error
	for _, member := range members {
		asking, cancel := context.WithTimeout(ctx, memberTimeout)
		status, err := c.Client.Status(asking, member)
		cancel()
		if err == nil {
			return status, nil
		}
		errs = append(errs, fmt.Errorf("ask etcd at %s for its status: %w", member, err))
	}
	return nil, errors.Join(errs...)
}

// Status is the store's own account of itself.
func (s *Storage) Status(ctx context.Context) (*clientv3.StatusResponse, error) {
	status, err := s.connection.Status(ctx)
	if err != nil {
		return nil, err
	}
	if len(status.Errors) > 0 {
		errs := make([]error, 0, len(status.Errors))
		for _, text := range status.Errors {
			errs = append(errs, fmt.Errorf("etcd: %s", text))
		}
		return status, apierrors.NewAggregate(errs)
	}
	return status, nil
}
