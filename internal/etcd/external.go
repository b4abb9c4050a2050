package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
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
// ends, unless both sides do not agree on TLS. The client has at most one connection to each
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
	if err := awaitAnswer(ctx, client); err != nil {
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

// awaitAnswer returns when a linearizable read has succeeded, or with an error of TLS: waiting
// does not help.
func awaitAnswer(ctx context.Context, client *clientv3.Client) error {
	kv := pb.NewKVClient(client.ActiveConnection()) // clientv3 tries again, and hides the cause
	var cause error
	for {
		attempt, cancel := context.WithTimeout(ctx, maxReconnect)
		_, err := kv.Range(attempt, &pb.RangeRequest{Key: []byte("health")}, grpc.WaitForReady(true))
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil { // otherwise the process stops
			switch text := err.Error(); {
			case strings.Contains(text, "tls: "), strings.Contains(text, "x509: "):
				return fmt.Errorf("%w: compare the scheme and the name of the endpoint, and caFile, certFile and "+
					"keyFile of etcd.external, with the member's certificate", err)
			case strings.Contains(text, "reading server preface"):
				return fmt.Errorf("%w: if the member uses TLS, write https:// in etcd.external.endpoints, and name its "+
					"authority with etcd.external.caFile", err)
			}
			client.GetLogger().Warn("etcd does not answer, trying again", zap.Error(err))
			cause = err
		}
		if reconcile.Pause(ctx, connectRetry); ctx.Err() != nil {
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), cmp.Or(cause, err))
		}
	}
}
