package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"kube-hyper-mini.io/kube-hyper-mini/internal/lifecycle"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	etcdfiles "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

// remedy is the advice for data that cannot be read, which is in the directory etcd of a data
// directory.
func remedy(dir string) string {
	return fmt.Sprintf("restore a backup with \"kube-hyper-mini backup restore --data-dir %s FILE\", "+
		"or move the data directory away to start empty", logging.ShellWord(filepath.Dir(dir)))
}

const (
	// catchUpEntries is the number of log entries that etcd keeps in memory for
	// followers. A single member has no followers. The default is 5,000 entries,
	// each of which may be a CRD of 50 kB; 0 means the default.
	catchUpEntries = 1
	// snapshotCount is the largest number of log entries that a start reads. Each
	// snapshot costs a few syncs. The default is 10,000.
	snapshotCount = 1000
	// logFile is the size, in bytes, of each file of the log; etcd takes the room of the next
	// one in advance, which the default of 64 MB would make large for small servers and for
	// control planes that sleep. Writes are as fast (measured with 1 and 64 writers).
	logFile = 2 << 20
)

func init() { wal.SegmentSizeBytes = logFile }

// quotaReserve is the room, in bytes, for writes in flight when the quota is reached.
const quotaReserve = 64 << 20

// Config configures a member.
type Config struct {
	// Dir holds the member's data.
	Dir string
	// QuotaBytes is the size of the database at which the caller refuses writes (see
	// [Member.Sizes]). etcd's own quota is 1.1 times that plus 64 MiB, see embedConfig.
	// 0 means no quota.
	QuotaBytes int64
	// Fsync writes to disk before a write is acknowledged.
	Fsync bool
	// Logger receives etcd's log.
	Logger *zap.Logger
	// Listener serves clients in other processes; nil for none.
	Listener *Listener
	// Closed is called once, when etcd no longer uses Dir or has failed: before Run
	// returns, or later if its context ended while etcd opened the data. It may be nil.
	Closed func()
}

// Listener serves the gRPC API of etcd over TLS to clients with a certificate
// of the authority.
type Listener struct {
	// Address is host:port.
	Address string
	// CertFile and KeyFile identify the member.
	CertFile, KeyFile string
	// ClientCAFile verifies the clients.
	ClientCAFile string
}

// Member is a single-member etcd. Call its methods other than Run when it is ready.
type Member struct {
	config  Config
	etcd    *embed.Etcd
	client  *clientv3.Client
	failure *etcdfiles.Failure
	turn    *semaphore.Weighted // taken while a snapshot is made or the database defragmented
	local   localServer
	streams streams
}

// New returns a member that does not run.
func New(cfg Config) *Member {
	if cfg.Closed == nil {
		cfg.Closed = func() {}
	}
	return &Member{config: cfg, failure: etcdfiles.NewFailure(), turn: semaphore.NewWeighted(1)}
}

// Start runs a member for a use that has an end; see [lifecycle.Begin].
func Start(ctx context.Context, cfg Config) (m *Member, stop func() error, err error) {
	m = New(cfg)
	stop, err = lifecycle.Begin(ctx, m.Run)
	return m, stop, err
}

// Run is that of a [lifecycle.Part]. It opens or creates the member's data. The member is
// ready before its election: the requests of the client block until then, as
// [Member.WaitReady] does. Data that is damaged or cannot be read is an error.
//
// The end of ctx closes the client and the member, and writes the checksum. etcd cannot be
// cancelled while it opens the data: if that takes some seconds more, Run returns the cause
// of ctx, and etcd is closed later, see [Config.Closed]. A member that has failed is not
// closed, because it may hold locks that closing needs: all acknowledged writes are in its log.
func (m *Member) Run(ctx context.Context, ready func()) error {
	embedCfg, err := m.prepare(ctx)
	if err != nil {
		m.config.Closed()
		return err
	}
	if m.etcd, err = m.failure.Start(ctx, embedCfg, m.config.Closed); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return err
		}
		return fmt.Errorf("start etcd on %s: %w; if the data is damaged, %s", m.config.Dir, err,
			remedy(m.config.Dir))
	}
	defer m.config.Closed()
	if err := etcdfiles.ShrinkLogBuffer(m.etcd.Server); err != nil {
		m.config.Logger.Warn("the log of etcd keeps its buffer of 1 MB", zap.Error(err))
	}
	m.client = v3client.New(m.etcd.Server)
	m.client.KV = etcdfiles.AfterElection(m.client.KV, m.WaitReady)
	m.client.Watcher = m.NewWatcher()
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), m.close(context.WithoutCancel(ctx)))
	}
	ready()
	return m.serve(ctx)
}

// prepare checks the data before etcd changes it.
func (m *Member) prepare(ctx context.Context) (*embed.Config, error) {
	embedCfg, err := embedConfig(m.config, m.failure)
	if err != nil {
		return nil, err
	}
	if err := Verify(ctx, m.config.Dir); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	if err := removeChecksum(m.config.Dir); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	return embedCfg, nil
}

// serve has the member elected, and closes it when ctx ends, or returns why it ended by itself.
func (m *Member) serve(ctx context.Context) error {
	elected := make(chan struct{})
	go func() {
		defer close(elected)
		if err := etcdfiles.Elect(ctx, m.etcd.Server); err != nil && ctx.Err() == nil {
			m.config.Logger.Warn("the member is elected by its ticks: the start takes longer", zap.Error(err))
		}
	}()
	select {
	case <-m.etcd.Server.StopNotify():
		return m.Err()
	case <-m.failure.Failed(): // an election may wait for ever
		return m.Err()
	case <-ctx.Done():
	}
	select {
	case <-elected:
		return m.close(context.WithoutCancel(ctx))
	case <-m.failure.Failed():
		return m.Err()
	}
}

// Exists reports whether the directory has a member's data, readable or not.
func Exists(dir string) bool {
	_, err := os.Stat(datadir.ToMemberDir(dir))
	return !errors.Is(err, os.ErrNotExist)
}

// WaitReady returns when the member is elected and has applied its log. It returns nil for
// a member that was ready, also after the end of ctx or of the member.
func (m *Member) WaitReady(ctx context.Context) error {
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	default:
	}
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case <-m.etcd.Server.StopNotify():
		return fmt.Errorf("etcd stopped before it was ready: %w", m.Err())
	case <-m.failure.Failed():
		return fmt.Errorf("etcd stopped before it was ready: %w", m.Err())
	case <-ctx.Done():
		return fmt.Errorf("wait for etcd: %w", context.Cause(ctx))
	}
}

func embedConfig(cfg Config, failure *etcdfiles.Failure) (*embed.Config, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make etcd's directory: %w", err)
	}
	c := embed.NewConfig()
	c.Dir = cfg.Dir
	c.UnsafeNoFsync = !cfg.Fsync
	etcdfiles.BecomeSingleMember(c)
	if l := cfg.Listener; l != nil {
		// The advertised URL does not change: it is stored in the data.
		c.ListenClientUrls = []url.URL{{Scheme: "https", Host: l.Address}}
		c.ClientTLSInfo = transport.TLSInfo{CertFile: l.CertFile, KeyFile: l.KeyFile,
			TrustedCAFile: l.ClientCAFile, ClientCertAuth: true}
		c.EnableGRPCGateway = false // it would dial the member with the member's own certificate
	}
	// etcd may apply a write that exceeds its quota and still answer NOSPACE. Its
	// quota is larger than the configured one, at which the keeper refuses writes.
	c.QuotaBackendBytes = cfg.QuotaBytes + cfg.QuotaBytes/10 + quotaReserve
	if cfg.QuotaBytes == 0 {
		c.QuotaBackendBytes = -1
	}
	c.SnapshotCount, c.SnapshotCatchUpEntries, c.MaxWalFiles = snapshotCount, catchUpEntries, 0 // see TrimLog
	// On two cores, etcd's default of 100 ms logs requests that only waited for a core.
	c.WarningApplyDuration, c.WarningUnaryRequestDuration = 500*time.Millisecond, 500*time.Millisecond
	// The API server compacts (see package storage).
	c.AutoCompactionRetention = "0"
	c.StrictReconfigCheck = true
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(failure.Logger(cfg.Logger))
	return c, nil
}

// Client returns the shared in-process client. Run closes it.
func (m *Member) Client() *clientv3.Client { return m.client }

// NewWatcher returns a watcher with a stream of its own, so that watches of different
// resources do not block each other. The caller closes it.
func (m *Member) NewWatcher() clientv3.Watcher {
	return m.streams.watcher(m.etcd.Server, m.client)
}

// Failed returns a channel that is closed when the member has failed for good: requests
// may block then.
func (m *Member) Failed() <-chan struct{} { return m.failure.Failed() }

// Err returns why the member ended by itself.
func (m *Member) Err() error {
	if err := m.failure.Err(); err != nil {
		return err
	}
	return errors.New("etcd stopped: see its messages above")
}

// close closes the client and the member, and writes the checksum. It does not close a
// member that has failed, and does not wait for one that fails meanwhile.
func (m *Member) close(ctx context.Context) error {
	if err := m.failure.Err(); err != nil {
		return err
	}
	closed := make(chan error, 1)
	go func() {
		err := m.client.Close()
		m.local.stop()
		m.streams.wait()
		m.etcd.Close()
		if errors.Is(err, context.Canceled) {
			err = nil // what a client without a connection returns
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("close etcd: %w", err)
		}
		return WriteChecksum(ctx, m.config.Dir)
	case <-m.failure.Failed():
		return nil
	}
}
