package etcd

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotAfter: time.Now().Add(time.Hour)}
	a.cert, a.key, a.file, _ = a.sign(template)
	return a
}

// sign writes a certificate and its key to files. The authority's own is signed by itself.
func (a *authority) sign(template *x509.Certificate) (crt *x509.Certificate, key *ecdsa.PrivateKey, certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	template.SerialNumber = big.NewInt(1)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if crt, err = x509.ParseCertificate(der); err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	certFile, keyFile = filepath.Join(dir, "crt"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	return crt, key, certFile, keyFile
}

// serve listens with a certificate for the address, and the changes to it and to the
// listener's configuration. It returns host and port.
func (a *authority) serve(change func(*x509.Certificate, *tls.Config)) string {
	a.t.Helper()
	template := &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	change(template, config)
	_, _, certFile, keyFile := a.sign(template)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		a.t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{pair}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = config
	server.EnableHTTP2 = true
	server.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	server.StartTLS()
	a.t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// closesHandshakes closes connections that begin with a TLS handshake, as etcd does
// without TLS.
type closesHandshakes struct{ net.Listener }

// Accept implements [net.Listener].
func (l *closesHandshakes) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		buffered := bufio.NewReader(conn)
		if first, err := buffered.Peek(1); err == nil && first[0] != 0x16 {
			return &peeked{conn, buffered}, nil
		}
		_ = conn.Close() // the client sees it
	}
}

// peeked is a connection whose first bytes have been read.
type peeked struct {
	net.Conn
	reader io.Reader
}

// Read implements [io.Reader].
func (p *peeked) Read(b []byte) (int, error) { return p.reader.Read(b) }

// TestProbe: the error says what both sides do not agree on, and what to change.
func TestProbe(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	_, _, certFile, keyFile := own.sign(&x509.Certificate{NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	_, _, otherCert, otherKey := other.sign(&x509.Certificate{NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(own.cert)
	good := own.serve(func(*x509.Certificate, *tls.Config) {})
	strict := own.serve(func(_ *x509.Certificate, c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
	})
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	closing := httptest.NewUnstartedServer(http.NotFoundHandler())
	closing.Config.Protocols = &http.Protocols{}
	closing.Config.Protocols.SetUnencryptedHTTP2(true)
	closing.Listener = &closesHandshakes{closing.Listener}
	closing.Start()
	t.Cleanup(closing.Close)
	const down = "http://127.0.0.1:1" // a port that no program gets
	for name, test := range map[string]struct {
		endpoint string
		cfg      External
		want     string // empty: no error
		lasting  bool
	}{
		"all is well":       {"https://" + good, External{CAFile: own.file}, "", false},
		"a client is known": {"https://" + strict, External{CAFile: own.file, CertFile: certFile, KeyFile: keyFile}, "", false},
		"no TLS on both":    {plain.URL, External{}, "", false},
		"another authority": {"https://" + good, External{CAFile: other.file}, "signed by unknown authority: compare the scheme", true},
		"no authority":      {"https://" + good, External{}, "caFile", true},
		"another name": {"https://" + own.serve(func(c *x509.Certificate, _ *tls.Config) {
			c.IPAddresses, c.DNSNames = nil, []string{"etcd.example.org"}
		}), External{CAFile: own.file}, "compare the scheme and the name", true},
		"an expired one":            {"https://" + own.serve(func(c *x509.Certificate, _ *tls.Config) { c.NotAfter = time.Now().Add(-time.Hour) }), External{CAFile: own.file}, "has expired or is not yet valid", true},
		"no client":                 {"https://" + strict, External{CAFile: own.file}, "certFile", true},
		"an unknown client":         {"https://" + strict, External{CAFile: own.file, CertFile: otherCert, KeyFile: otherKey}, "certFile", true},
		"https without TLS":         {strings.Replace(plain.URL, "http", "https", 1), External{CAFile: own.file}, "compare the scheme", true},
		"https on etcd without TLS": {strings.Replace(closing.URL, "http", "https", 1), External{CAFile: own.file}, "write http://", false},
		"http with TLS":             {"http://" + good, External{}, "uses TLS: write https://" + good, true},
		"http, TLS, a client":       {"http://" + strict, External{CAFile: own.file}, "uses TLS: write https://" + strict, true},
		"nobody listens":            {down, External{}, "refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := Probe(t.Context(), test.cfg, test.endpoint)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if lasting := errors.As(err, new(*TLSError)); lasting != test.lasting {
				t.Errorf("%v: a TLSError: %t", err, lasting)
			}
		})
	}
}

// TestConnectWithWrongTLS: a client that no member will accept says why, and does not wait
// for ever.
func TestConnectWithWrongTLS(t *testing.T) {
	t.Parallel()
	good := "https://" + newAuthority(t, "own").serve(func(*x509.Certificate, *tls.Config) {})
	_, err := Connect(t.Context(), External{Endpoints: []string{good}, Logger: zap.NewNop()})
	if !errors.As(err, new(*TLSError)) || !strings.Contains(err.Error(), "reach etcd at "+good+": ") || !strings.Contains(err.Error(), "etcd.external") {
		t.Errorf("the error is %v", err)
	}
}

// TestConnectWithAMemberThatIsDown: a client that a member may accept later waits, and the
// error names what was wrong with each.
func TestConnectWithAMemberThatIsDown(t *testing.T) {
	t.Parallel()
	good := "https://" + newAuthority(t, "own").serve(func(*x509.Certificate, *tls.Config) {})
	const down = "http://127.0.0.1:1" // a port that no program gets
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := zap.Hooks(func(entry zapcore.Entry) error {
		if strings.Contains(entry.Message, "does not answer") {
			cancel()
		}
		return nil
	})
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.WarnLevel), waits)
	_, err := Connect(ctx, External{Endpoints: []string{good, down}, Logger: log})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), good+": ") || !strings.Contains(err.Error(), down+": ") {
		t.Errorf("the error is %v", err)
	}
}
