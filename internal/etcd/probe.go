package etcd

import (
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
)

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
