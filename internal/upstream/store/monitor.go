package store

import (
	"context"
	"path"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/storage/feature"
)

// Upstream fact: what Kubernetes asks etcd about itself
//
// Mirrors: k8s.io/apiserver/pkg/server/options.EtcdOptions.ApplyWithStorageFactoryTo
//   k8s.io/apiserver/pkg/server/options.monitorGetter
//   k8s.io/apiserver/pkg/storage/etcd3/metrics.SetStorageMonitorGetter
//   k8s.io/apiserver/pkg/storage/feature.defaultFeatureSupportChecker.CheckClient
//   k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ProberMonitor.Probe
//   k8s.io/apiserver/pkg/storage/storagebackend/factory.keepaliveTime
//   k8s.io/apiserver/pkg/storage/storagebackend/factory.keepaliveTimeout
// Why: applying the options replaces, for the whole process, the source of
//   apiserver_storage_size_bytes by one that dials etcd, as the health checks do. And
//   consistent reads from the watch cache are off until a client reports that etcd supports
//   progress of watches; Kubernetes sends requests to the endpoints of a client, and one
//   that is in-process has none. The client of an external etcd is made here, once for all
//   resources, with the keepalive of Kubernetes, which is not exported.
// Gain: /livez and /readyz report whether the embedded etcd answers, a scrape of /metrics
//   does not wait for an address at which nothing listens, and consistent reads come from
//   the watch cache.
// Breaks: apiserver_storage_size_bytes is missing, /metrics takes seconds, the health
//   checks differ, or each consistent read goes to etcd. TestWatchProgressIsDetected,
//   TestMetrics and TestHealthAndStatus fail. None tests the keepalive, which would take 40
//   seconds.

// Status returns the status of the store.
type Status func(context.Context) (*clientv3.StatusResponse, error)

// monitors are those of the servers of the process.
var monitors struct {
	sync.Mutex
	list []metrics.Monitor
}

// Measure makes status a source of apiserver_storage_size_bytes until remove is called.
func Measure(status Status) (remove func()) {
	monitors.Lock()
	defer monitors.Unlock()
	added := &monitor{status}
	monitors.list = append(monitors.list, added)
	return func() {
		monitors.Lock()
		defer monitors.Unlock()
		monitors.list = slices.DeleteFunc(monitors.list, func(m metrics.Monitor) bool { return m == added })
	}
}

// TakeMonitors makes [Measure] the sources of the metric. Call it after storage options have
// been applied.
func TakeMonitors() {
	metrics.SetStorageMonitorGetter(func() ([]metrics.Monitor, error) {
		monitors.Lock()
		defer monitors.Unlock()
		return slices.Clone(monitors.list), nil
	})
}

// DetectFeatures checks in the background whether the store reports the progress of
// watches, until ctx ends. Endpoint names the store.
func DetectFeatures(ctx context.Context, endpoint string, status Status) {
	feature.DefaultFeatureSupportChecker.CheckClient(ctx, statusClient{endpoint, status}, storage.RequestWatchProgress)
}

type monitor struct{ status Status }

// Monitor implements [metrics.Monitor].
func (m *monitor) Monitor(ctx context.Context) (metrics.StorageMetrics, error) {
	status, err := m.status(ctx)
	if err != nil {
		return metrics.StorageMetrics{}, err
	}
	return metrics.StorageMetrics{Size: status.DbSize}, nil
}

// Close implements [metrics.Monitor]; the connection is not the monitor's.
func (m *monitor) Close() error { return nil }

// statusClient is the client of the feature checker.
type statusClient struct {
	endpoint string
	status   Status
}

// Endpoints names the one store.
func (c statusClient) Endpoints() []string { return []string{c.endpoint} }

// Status returns the status of the store for any endpoint.
func (c statusClient) Status(ctx context.Context, _ string) (*clientv3.StatusResponse, error) {
	return c.status(ctx)
}

// Probe reads a key, which need not exist, through the quorum.
func Probe(ctx context.Context, client *clientv3.Client, prefix string) error {
	_, err := client.Get(ctx, path.Join("/", prefix, "health"))
	return err
}

const (
	// KeepaliveTime is the time without traffic after which a client pings the member.
	KeepaliveTime = 30 * time.Second
	// KeepaliveTimeout is the time for the answer; then the connection is closed.
	KeepaliveTimeout = 10 * time.Second
)
