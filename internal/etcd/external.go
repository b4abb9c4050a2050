package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

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
		if reconcile.Pause(ctx, connectRetry); ctx.Err() != nil {
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), cmp.Or(cause, err))
		}
	}
}

const (
	// probeTimeout bounds the connection of one probe.
	probeTimeout = 2 * time.Second
	// alertTimeout is the time in which a member refuses a client certificate: in TLS 1.3
	// after the handshake.
	alertTimeout = 500 * time.Millisecond
)

// TLSError is a failure to connect that stays until a certificate or the configuration is
// changed.
type TLSError struct{ Err error }

// Error implements error.
func (e *TLSError) Error() string { return e.Err.Error() }

// Unwrap returns the error of crypto/tls, with the remedy.
func (e *TLSError) Unwrap() error { return e.Err }

// Probe connects with the member at an endpoint as the client does, and disconnects. It
// returns why that fails, a [TLSError] where both sides do not agree on TLS.
func Probe(ctx context.Context, cfg External, endpoint string) error {
	address, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	config, err := cfg.tls()
	if err != nil {
		return err
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.ServerName, config.NextProtos = address.Hostname(), []string{"h2"}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }() // nothing was sent that matters
	conn := tls.Client(plain, config)
	err = conn.HandshakeContext(ctx)
	if address.Scheme == "http" {
		if err == nil || isTLS(err) && !errors.As(err, new(tls.RecordHeaderError)) {
			return &TLSError{fmt.Errorf("it uses TLS: write https://%s, and name its authority with etcd.external.caFile",
				address.Host)}
		}
		return nil
	}
	if err == nil {
		_ = conn.SetReadDeadline(time.Now().Add(alertTimeout)) // a closed connection is reported by Read
		if _, err = conn.Read(make([]byte, 1)); !isTLS(err) {
			return nil
		}
	}
	if isTLS(err) {
		return &TLSError{fmt.Errorf("%w: compare the scheme and the name of the endpoint, and caFile, certFile and "+
			"keyFile of etcd.external, with the member's certificate", err)}
	}
	if errors.Is(err, io.EOF) { // of etcd without TLS, or of a balancer without a member
		return fmt.Errorf("the TLS handshake: %w; write http:// if the member does not use TLS", err)
	}
	return err
}

// isTLS reports whether the error is an alert of the other side, or a certificate or an
// answer that this side refuses.
func isTLS(err error) bool {
	remote := new(net.OpError)
	return errors.As(err, &remote) && remote.Op == "remote error" || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.As(err, new(*tls.CertificateVerificationError))
}

// probeAll returns why the members cannot be reached, with their endpoints; nil if one can
// be. It is a [TLSError] if all are.
func (e External) probeAll(ctx context.Context) error {
	failures := make([]error, len(e.Endpoints))
	var probes sync.WaitGroup
	for i, endpoint := range e.Endpoints {
		probes.Go(func() { failures[i] = Probe(ctx, e, endpoint) })
	}
	probes.Wait()
	var texts []string
	lasting := true
	for i, failure := range failures {
		if failure == nil {
			return nil
		}
		text := failure.Error()
		if len(e.Endpoints) > 1 {
			text = e.Endpoints[i] + ": " + text
		}
		texts = append(texts, text)
		lasting = lasting && errors.As(failure, new(*TLSError))
	}
	err := errors.New(strings.Join(texts, "; "))
	if lasting {
		return &TLSError{err}
	}
	return err
}
