package etcd

import (
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

// TestConnectWithWrongTLS: a client that no member will accept says why, and does not wait
// for ever.
func TestConnectWithWrongTLS(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t, "own"), newAuthority(t, "other")
	_, _, otherCert, otherKey := other.sign(&x509.Certificate{NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	pool := x509.NewCertPool()
	pool.AddCert(own.cert)
	good := own.serve(func(*x509.Certificate, *tls.Config) {})
	strict := own.serve(func(_ *x509.Certificate, c *tls.Config) {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool
	})
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, test := range map[string]struct {
		endpoint string
		cfg      External
		want     string
	}{
		"another authority": {"https://" + good, External{CAFile: other.file}, "signed by unknown authority"},
		"no authority":      {"https://" + good, External{}, "caFile"},
		"another name": {"https://" + own.serve(func(c *x509.Certificate, _ *tls.Config) {
			c.IPAddresses, c.DNSNames = nil, []string{"etcd.example.org"}
		}), External{CAFile: own.file}, "compare the scheme and the name"},
		"an expired one":    {"https://" + own.serve(func(c *x509.Certificate, _ *tls.Config) { c.NotAfter = time.Now().Add(-time.Hour) }), External{CAFile: own.file}, "has expired or is not yet valid"},
		"http with TLS":     {"http://" + good, External{}, "write https://"},
		"no client":         {"https://" + strict, External{CAFile: own.file}, "certFile"},
		"an unknown client": {"https://" + strict, External{CAFile: own.file, CertFile: otherCert, KeyFile: otherKey}, "certFile"},
		"https without TLS": {strings.Replace(plain.URL, "http", "https", 1), External{CAFile: own.file}, "compare the scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.cfg.Endpoints, test.cfg.Logger = []string{test.endpoint}, zap.NewNop()
			_, err := Connect(t.Context(), test.cfg)
			if err == nil || !strings.Contains(err.Error(), "reach etcd at "+test.endpoint+": ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// TestConnectWithAMemberThatIsDown: a client that a member may accept later waits, and the
// error names what was wrong.
func TestConnectWithAMemberThatIsDown(t *testing.T) {
	t.Parallel()
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
	_, err := Connect(ctx, External{Endpoints: []string{down}, Logger: log})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "127.0.0.1:1: connect: connection refused") {
		t.Errorf("the error is %v", err)
	}
}
