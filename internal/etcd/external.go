package etcd

import (
	"context"
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

// Connect returns a client of the cluster when the cluster has answered. It tries
// until ctx ends. The client has at most one connection to each member and fails over
// between them. The caller closes it.
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
	if cfg.CAFile != "" || cfg.CertFile != "" {
		info := transport.TLSInfo{TrustedCAFile: cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile}
		tls, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("read the certificates for etcd: %w", err)
		}
		config.TLS = tls
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for etcd at %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	if err := awaitAnswer(ctx, client); err != nil {
		_ = client.Close() // it has no connection
		return nil, fmt.Errorf("reach etcd at %s: %w", strings.Join(cfg.Endpoints, ", "), err)
	}
	return client, nil
}

// awaitAnswer returns when a linearizable read has succeeded.
func awaitAnswer(ctx context.Context, client *clientv3.Client) error {
	ticker := time.NewTicker(connectRetry)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, maxReconnect)
		_, err := client.Get(attempt, "health")
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // otherwise the process stops
			client.GetLogger().Warn("etcd does not answer, trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
