package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// maxReconnect bounds the delay between two attempts to connect with a member.
	maxReconnect = 3 * time.Second
	connectRetry = 500 * time.Millisecond
)

// External configures the connection to an etcd cluster of other processes.
type External struct {
	Endpoints []string
	// CAFile verifies the members; CertFile and KeyFile authenticate this client.
	// All may be empty.
	CAFile, CertFile, KeyFile string
	// Logger receives the client's log.
	Logger *zap.Logger
}

// Connect returns a client of the cluster when the cluster has answered. It tries until ctx
// ends, unless each member fails for a [TLSError]. The client has at most one connection to each
// member and fails over between them. The caller closes it.
func Connect(ctx context.Context, cfg External) (*clientv3.Client, error) {
	config := clientv3.Config{
		Endpoints:            cfg.Endpoints,
		DialKeepAliveTime:    store.KeepaliveTime,
		DialKeepAliveTimeout: store.KeepaliveTimeout,
		Logger:               cfg.Logger,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: maxReconnect},
		})},
	}
	var err error
	if config.TLS, err = cfg.tls(); err != nil {
		return nil, err
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for etcd at %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	if err := awaitAnswer(ctx, client, cfg.probeAll); err != nil {
		_ = client.Close() // it has no connection
		return nil, fmt.Errorf("reach etcd at %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	return client, nil
}

// tls returns nil without certificates.
func (e External) tls() (*tls.Config, error) {
	if e.CAFile == "" && e.CertFile == "" {
		return nil, nil
	}
	config, err := transport.TLSInfo{TrustedCAFile: e.CAFile, CertFile: e.CertFile, KeyFile: e.KeyFile}.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the certificates for etcd: %w", err)
	}
	return config, nil
}

// awaitAnswer returns when a linearizable read has succeeded. After a failure it calls
// probe, and returns its error if that is a [TLSError]: waiting does not help.
func awaitAnswer(ctx context.Context, client *clientv3.Client, probe func(context.Context) error) error {
	ticker := time.NewTicker(connectRetry)
	defer ticker.Stop()
	var cause error
	for {
		attempt, cancel := context.WithTimeout(ctx, maxReconnect)
		_, err := client.Get(attempt, "health")
		cancel()
		if err == nil {
			return nil
		}
		if failure := probe(ctx); failure != nil { // the client hides the cause
			err = failure
		}
		if ctx.Err() == nil { // otherwise the process stops
			if errors.As(err, new(*TLSError)) {
				return err
			}
			client.GetLogger().Warn("etcd does not answer, trying again", zap.Error(err))
			cause = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), cmp.Or(cause, err))
		case <-ticker.C:
		}
	}
}
