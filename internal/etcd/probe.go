package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
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
		return explainPlain(err, address.Host)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no TLS handshake within %s", probeTimeout)
	}
	if errors.Is(err, io.EOF) && speaksHTTP2(ctx, address.Host) {
		err = tls.RecordHeaderError{Msg: "the member has closed the connection"}
	}
	if err != nil {
		return cfg.explain(err, address.Host)
	}
	_ = conn.SetReadDeadline(time.Now().Add(alertTimeout)) // a closed connection is reported by Read
	if _, err := conn.Read(make([]byte, 1)); isAlert(err) {
		return cfg.explain(err, address.Host)
	}
	return nil
}

// speaksHTTP2 reports whether a member answers without TLS. etcd closes a connection that
// begins with a TLS handshake then.
func speaksHTTP2(ctx context.Context, host string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()                // nothing was sent that matters
	_ = conn.SetDeadline(time.Now().Add(probeTimeout)) // a closed connection is reported by Read
	_, _ = io.WriteString(conn, http2.ClientPreface)   // likewise
	_ = http2.NewFramer(conn, nil).WriteSettings()     // likewise
	_, err = http2.NewFramer(nil, conn).ReadFrame()
	return err == nil
}

// isAlert reports whether the error is an alert of the other side.
func isAlert(err error) bool {
	remote := new(net.OpError)
	return errors.As(err, &remote) && remote.Op == "remote error"
}

// explainPlain returns an error if the result of a handshake with an http endpoint shows
// that it uses TLS.
func explainPlain(handshake error, host string) error {
	invalid := new(tls.CertificateVerificationError)
	if handshake == nil || errors.As(handshake, &invalid) || isAlert(handshake) {
		return &TLSError{fmt.Errorf("it uses TLS: write https://%s, and name its authority with etcd.external.caFile", host)}
	}
	return nil
}

// explain adds the remedy to the error of a handshake.
func (e External) explain(err error, host string) error {
	unknown, name, expired := new(x509.UnknownAuthorityError), new(x509.HostnameError), new(x509.CertificateInvalidError)
	header := new(tls.RecordHeaderError)
	switch {
	case errors.As(err, header):
		return &TLSError{fmt.Errorf("it does not use TLS: write http://%s, or switch TLS on there", host)}
	case errors.As(err, unknown) && e.CAFile == "":
		return &TLSError{fmt.Errorf("%w: name its authority with etcd.external.caFile", err)}
	case errors.As(err, unknown):
		return &TLSError{fmt.Errorf("%w: its authority is not in %s (etcd.external.caFile)", err, e.CAFile)}
	case errors.As(err, name):
		return &TLSError{fmt.Errorf("%w: use a name in the certificate as the endpoint, or add this one to the certificate", err)}
	case errors.As(err, expired) && expired.Reason == x509.Expired:
		return &TLSError{fmt.Errorf("%w: renew the certificate of etcd, or correct the clock", err)}
	case isAlert(err) && e.CertFile == "":
		return &TLSError{fmt.Errorf("%w: it requires a client certificate; name one with etcd.external.certFile and keyFile", err)}
	case isAlert(err):
		return &TLSError{fmt.Errorf("%w: it refuses the client certificate %s (etcd.external.certFile)", err, e.CertFile)}
	}
	if invalid := new(tls.CertificateVerificationError); errors.As(err, &invalid) {
		return &TLSError{err}
	}
	return err
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
