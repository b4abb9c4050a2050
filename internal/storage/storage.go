package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/utils/clock"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Connection connects with etcd, embedded or external.
type Connection struct {
	// Client is shared by all stores. Its owner closes it after [Storage.Close].
	Client *clientv3.Client
	// NewWatcher makes a watcher with its own stream on that client.
	NewWatcher func() clientv3.Watcher
	// Endpoint names the store in metrics and logs.
	Endpoint string
	// Members are the endpoints of an external cluster, for its status.
	Members []string
	// Single means the embedded member, which supports serializable counts.
	Single bool
	// Dial connects to the gRPC API of the embedded member, and returns an error for an
	// external cluster. It is for clients that upstream makes by itself.
	Dial func(ctx context.Context) (net.Conn, error)
	// Gate regulates access; nil for an external cluster.
	Gate Gate
}

// Config configures a [Storage].
type Config struct {
	// Prefix of all keys.
	Prefix string
	// CompactionInterval is the time for which history is kept; 0 for ever.
	CompactionInterval time.Duration
	// Timeout bounds a health check.
	Timeout time.Duration
	// NamespaceBytes is what the objects of a namespace may take of the database; 0 for no
	// bound.
	NamespaceBytes int64
}

// Storage makes the stores of all API servers in the process. It is safe for concurrent
// use.
type Storage struct {
	connection Connection
	config     Config
	compactor  compactor
	population *Population
	quota      namespaceQuota
	caches     watchCaches      // of built-in resources
	customs    customStores     // of custom resources
	watcher    clientv3.Watcher // of built-in resources without a watch cache
	progress   progressRequests // of its watches
	damaged    atomic.Pointer[damagedObject]
	background context.Context // ends with Close
	cancel     context.CancelFunc
	unmeasure  func()
	objects    ObjectMetrics

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

// New returns a Storage and starts its compactor. Close stops it.
func New(connection Connection, config Config, log *slog.Logger) *Storage {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Storage{
		connection: connection,
		config:     config,
		watcher:    connection.NewWatcher(),
		compactor:  etcd3.NewCompactor(connection.Client, config.CompactionInterval, clock.RealClock{}, nil),
		background: ctx,
		cancel:     cancel,
		prefixes:   map[schema.GroupResource]string{},
	}
	s.population = s.newPopulation(log)
	s.quota.bytes, s.quota.storage = config.NamespaceBytes, s
	store.DetectFeatures(ctx, connection.Endpoint, s.status)
	s.unmeasure = store.Measure(s.status)
	return s
}

// Close stops the background work and waits for it. All stores of built-in resources must
// have been destroyed before. It closes those of custom resources: upstream's handler has no
// exported method that does.
func (s *Storage) Close() {
	s.unmeasure()
	s.customs.close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	_ = s.watcher.Close() // its error is that of the context, which Close cancels
	s.compactor.Stop()
	s.running.Wait()
}

// Dial is [Connection.Dial].
func (s *Storage) Dial(ctx context.Context) (net.Conn, error) { return s.connection.Dial(ctx) }

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

// ObjectMetrics returns the metrics of the objects in the store.
func (s *Storage) ObjectMetrics() *ObjectMetrics { return &s.objects }

// Health makes a linearizable read. During a defragmentation the store is healthy.
func (s *Storage) Health(ctx context.Context) error {
	if ctx.Err() != nil { // the embedded etcd may answer nevertheless
		return fmt.Errorf("read from etcd: %w", context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	defragmenting := func() bool { return s.connection.Gate != nil && s.connection.Gate.Defragmenting() }
	before := defragmenting()
	if err := store.Probe(ctx, s.connection.Client, s.config.Prefix); err != nil && !before && !defragmenting() {
		return fmt.Errorf("read from etcd: %w", err)
	}
	return nil
}

// memberTimeout bounds a status request to one member.
const memberTimeout = 2 * time.Second

// Status returns the status of the first member that answers.
func (c Connection) Status(ctx context.Context) (*clientv3.StatusResponse, error) {
	if ctx.Err() != nil { // the embedded etcd answers nevertheless, and panics when it is closed
		return nil, fmt.Errorf("read the status of etcd: %w", context.Cause(ctx))
	}
	members := c.Members
	if len(members) == 0 {
		members = []string{c.Endpoint}
	}
	var errs []error
	for _, member := range members {
		attempt, cancel := context.WithTimeout(ctx, memberTimeout)
		status, err := c.Client.Status(attempt, member)
		cancel()
		if err == nil {
			return status, nil
		}
		errs = append(errs, fmt.Errorf("read the status of etcd at %s: %w", member, err))
	}
	return nil, errors.Join(errs...)
}

// status is [Connection.Status] until Close, which waits for it: the embedded etcd panics when its
// database is closed meanwhile, and requests to other servers of the process read it for /metrics.
func (s *Storage) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errors.New("read the status of etcd: its server has stopped")
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.background, cancel)()
	return s.connection.Status(ctx)
}

// Status returns the status of etcd. If that has errors, it returns them, too.
func (s *Storage) Status(ctx context.Context) (*clientv3.StatusResponse, error) {
	status, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	if len(status.Errors) > 0 {
		return status, fmt.Errorf("etcd: %s", strings.Join(status.Errors, "; "))
	}
	return status, nil
}

// damagedObject is an object that etcd has and no list can decode.
type damagedObject struct {
	key string
	err error
}

// Damage returns the last object of a built-in type that a list could not decode, with the
// remedy; nil if there was none. The watch cache of its type is not filled, so that a server
// with it does not become ready.
func (s *Storage) Damage() error {
	damaged := s.damaged.Load()
	if damaged == nil {
		return nil
	}
	return fmt.Errorf("the damaged object with the key %q in etcd to be replaced or deleted: %w; restore a backup, "+
		"with \"kube-hyper-mini backup restore --data-dir DIR FILE\", "+
		"or start with apiServer.featureGates: {AllowUnsafeMalformedObjectDeletion: true} and delete it with "+
		"\"kubectl delete --raw PATH?ignoreStoreReadErrorWithClusterBreakingPotential=true\"", damaged.key, damaged.err)
}

// recordPrefix records the key prefix of a resource.
func (s *Storage) recordPrefix(resource schema.GroupResource, prefix string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prefixes[resource] = prefix
}

// HasObjects reports whether the resource has objects in the namespace: it reads one key.
// It does not include the objects of aggregated API servers.
func (s *Storage) HasObjects(ctx context.Context, resource schema.GroupResource, namespace string) (bool, error) {
	prefix := store.NamespaceKeys(s.config.Prefix, s.prefix(resource), namespace)
	response, err := s.connection.Client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithLimit(1))
	if err != nil {
		return false, fmt.Errorf("read the keys of %s in namespace %s: %w", resource, namespace, err)
	}
	return len(response.Kvs) > 0, nil
}

// CountAll returns the number of all stored objects. It does not include those of
// aggregated API servers.
func (s *Storage) CountAll(ctx context.Context) (int64, error) {
	options := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly()}
	if s.connection.Single {
		options = append(options, clientv3.WithSerializable()) // kine refuses these
	}
	response, err := s.connection.Client.Get(ctx, path.Join("/", s.config.Prefix)+"/", options...)
	if err != nil {
		return 0, fmt.Errorf("count all objects: %w", err)
	}
	return response.Count, nil
}

// Compact removes the history of the objects up to a revision, unless that is 0, and returns the
// current one. The compactor does so only in a server that runs for twice its interval.
func (s *Storage) Compact(ctx context.Context, revision int64) (current int64, err error) {
	if revision > 0 {
		if _, err := s.connection.Client.Compact(ctx, revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return 0, fmt.Errorf("compact the history: %w", err)
		}
	}
	return s.population.Revision(ctx)
}

// prefix returns the key prefix of the resource below the common prefix.
func (s *Storage) prefix(resource schema.GroupResource) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if prefix, ok := s.prefixes[resource]; ok {
		return prefix
	}
	return store.CustomResourcePrefix(resource)
}

// knownPrefixes returns the key prefixes of the resources that have a store.
func (s *Storage) knownPrefixes() map[schema.GroupResource]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.prefixes)
}

// singlePrefixes returns the key prefixes that are one segment of a path: those of most
// built-in resources.
func (s *Storage) singlePrefixes() map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefixes := map[string]struct{}{}
	for _, prefix := range s.prefixes {
		if store.HasOwnSegment(prefix) {
			prefixes[prefix] = struct{}{}
		}
	}
	return prefixes
}
