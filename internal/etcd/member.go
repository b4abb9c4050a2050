package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
)

// remedy for data that cannot be read.
const remedy = "restore a backup with \"kube-hyper-mini backup restore FILE\", or move the data directory away to start empty"

const (
	memberName = "kube-hyper-mini"
	// Raft needs a host:port to name a member by; nothing listens there.
	advertised = "http://kube-hyper-mini.invalid:2380"

	// The election of the only member takes one to five ticks, 30 to 150 ms,
	// during which the API servers are built. etcd's defaults take 0.1 to 1 s.
	// Shorter ticks would wake an idle process more often and save nothing.
	tickMillis     = 30
	electionMillis = 5 * tickMillis // the least that etcd accepts
)

// quotaReserve is for what is under way when the quota is reached.
const quotaReserve = 64 << 20

// Config configures a member.
type Config struct {
	// Dir holds the member's data.
	Dir string
	// QuotaBytes is the size of the database at which writes are to be refused
	// (see [Member.Sizes]). The member itself refuses them well above it.
	QuotaBytes int64
	// Fsync says whether a write is on disk before it is acknowledged.
	Fsync bool
	// Logger receives etcd's log.
	Logger *zap.Logger
	// Listener serves clients in other processes; nil for none.
	Listener *Listener
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

// Member is a running single-member etcd.
type Member struct {
	dir    string
	quota  int64
	etcd   *embed.Etcd
	client *clientv3.Client
	words  *lastWords
	done   chan struct{}
	turn   chan struct{} // see takeTurn
}

// Start opens or creates the member's data. The client can be used at once;
// writes wait for the election, as [Member.WaitReady] does. Data that cannot be
// read or that is damaged is an error, never an empty start. The end of ctx cuts
// the check of the data short; it does not stop a member that runs.
func Start(ctx context.Context, cfg Config) (*Member, error) {
	words := newLastWords()
	embedCfg, err := embedConfig(cfg, words)
	if err != nil {
		return nil, err
	}
	if err := checkData(ctx, cfg.Dir); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	for _, step := range []func(string) error{removeUnborn, breakSeal} {
		if err := step(cfg.Dir); err != nil {
			return nil, fmt.Errorf("start etcd: %w", err)
		}
	}
	started, err := startEtcd(embedCfg, words)
	if err != nil {
		return nil, fmt.Errorf("start etcd on %s: %w; if the data is damaged, %s", cfg.Dir, err, remedy)
	}
	m := &Member{dir: cfg.Dir, quota: cfg.QuotaBytes, etcd: started, client: v3client.New(started.Server), words: words, done: make(chan struct{}), turn: make(chan struct{}, 1)}
	go func() {
		defer close(m.done)
		select {
		case <-started.Server.StopNotify():
		case <-words.spoken:
		}
	}()
	return m, nil
}

// Exists says whether the directory has a member's data, readable or not.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "member"))
	return !errors.Is(err, os.ErrNotExist)
}

// WaitReady returns when the member is elected and has applied its log.
func (m *Member) WaitReady(ctx context.Context) error {
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case <-m.done:
		return fmt.Errorf("etcd stopped before it was ready: %w", m.Err())
	case <-ctx.Done():
		return fmt.Errorf("wait for etcd: %w", context.Cause(ctx))
	}
}

// startEtcd calls embed.StartEtcd and turns what etcd does with unreadable
// data, a panic or a fatal log line on whatever goroutine, into an error.
func startEtcd(cfg *embed.Config, words *lastWords) (*embed.Etcd, error) {
	type outcome struct {
		etcd *embed.Etcd
		err  error
	}
	outcomes := make(chan outcome, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				cfg.GetLogger().Debug("etcd panicked", zap.ByteString("stack", debug.Stack()))
				outcomes <- outcome{err: fmt.Errorf("the data cannot be read (%v)", cause)}
			}
		}()
		started, err := embed.StartEtcd(cfg)
		outcomes <- outcome{started, err}
	}()
	select {
	case o := <-outcomes:
		return o.etcd, o.err
	case <-words.spoken:
		return nil, words.err
	}
}

func embedConfig(cfg Config, words *lastWords) (*embed.Config, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make etcd's directory: %w", err)
	}
	advertise, err := url.Parse(advertised)
	if err != nil {
		return nil, fmt.Errorf("parse etcd's advertised URL: %w", err)
	}
	c := embed.NewConfig()
	c.Name = memberName
	c.Dir = cfg.Dir
	c.TickMs, c.ElectionMs = tickMillis, electionMillis
	c.ListenPeerUrls, c.ListenClientUrls, c.ListenClientHttpUrls, c.ListenMetricsUrls = nil, nil, nil, nil
	c.AdvertisePeerUrls, c.AdvertiseClientUrls = []url.URL{*advertise}, []url.URL{*advertise}
	if l := cfg.Listener; l != nil {
		// The advertised URL stays as it is: it is part of the data.
		c.ListenClientUrls = []url.URL{{Scheme: "https", Host: l.Address}}
		c.ClientTLSInfo = transport.TLSInfo{CertFile: l.CertFile, KeyFile: l.KeyFile, TrustedCAFile: l.ClientCAFile, ClientCertAuth: true}
		c.EnableGRPCGateway = false // it would dial the member with the member's own certificate
	}
	c.InitialCluster = memberName + "=" + advertised
	// etcd applies a write that meets its quota in the end, when others have
	// come before it, and says that it did not. It should not get there.
	c.QuotaBackendBytes = cfg.QuotaBytes + cfg.QuotaBytes/10 + quotaReserve
	c.UnsafeNoFsync = !cfg.Fsync
	// On two cores a request that had to wait for a core is no news.
	c.WarningApplyDuration, c.WarningUnaryRequestDuration = 500*time.Millisecond, 500*time.Millisecond
	// The API server compacts (see package storage).
	c.AutoCompactionRetention = "0"
	c.StrictReconfigCheck = true
	logger := cfg.Logger.WithOptions(zap.WithFatalHook(words), zap.WithPanicHook(words))
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return c, nil
}

// Client is the shared in-process client. Do not close it; Stop does.
func (m *Member) Client() *clientv3.Client { return m.client }

// NewWatcher returns a watcher with a stream of its own, so that watches of
// one resource do not wait for another's. The caller closes it.
func (m *Member) NewWatcher() clientv3.Watcher {
	return v3client.New(m.etcd.Server).Watcher
}

// Done is closed when the member has stopped, asked or not.
func (m *Member) Done() <-chan struct{} { return m.done }

// Err is why the member stopped by itself.
func (m *Member) Err() error {
	select {
	case <-m.words.spoken:
		return m.words.err
	default:
		return errors.New("etcd stopped; see its messages above")
	}
}

// Stop closes the client and the member and returns when the data is closed
// and sealed, or with ctx's error when that takes too long. A member that gave
// up is left as it is: what it has acknowledged is in its log.
func (m *Member) Stop(ctx context.Context) error {
	closed := make(chan error, 1)
	go func() {
		err := m.client.Close()
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
		return writeSeal(ctx, m.dir)
	case <-m.words.spoken:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close etcd: %w", context.Cause(ctx))
	}
}
