package apiserver

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/util/cert"
)

// TestCertificateCache: a certificate is verified again after verifiedFor, after its
// end, with other client CAs, and for requests with other credentials.
func TestCertificateCache(t *testing.T) { synctest.Test(t, testCertificateCache) }

func testCertificateCache(t *testing.T) {
	start := time.Now()
	calls, valid, trusted := 0, true, []byte("first")
	c := newCertificateCache(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		calls++
		return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, valid, nil
	}), func() []byte { return trusted }, headerrequest.StaticStringSlice{"X-Remote-User", "x-other-user"})
	long := &x509.Certificate{Raw: []byte("long"), NotAfter: start.Add(time.Hour)}
	short := &x509.Certificate{Raw: []byte("short"), NotAfter: start.Add(time.Second)}
	request := func(certificate *x509.Certificate, headers ...string) *http.Request {
		r := &http.Request{Header: http.Header{}}
		if certificate != nil {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}
		}
		for _, name := range headers {
			r.Header.Set(name, "x")
		}
		return r
	}
	for _, step := range []struct {
		name      string
		after     time.Duration
		request   *http.Request
		clientCAs string
		verified  bool
	}{
		{"a new certificate", 0, request(long), "first", true},
		{"the same certificate", 0, request(long), "first", false},
		{"with a token", 0, request(long, "Authorization"), "first", true},
		{"with a token of a websocket", 0, request(long, "Sec-WebSocket-Protocol"), "first", true},
		{"with a user of a front proxy", 0, request(long, "X-Remote-User"), "first", true},
		{"with a user in a configured header", 0, request(long, "X-Other-User"), "first", true},
		{"another certificate", 0, request(short), "first", true},
		{"the first certificate after 5 s", 5 * time.Second, request(long), "first", false},
		{"with other client CAs", 5 * time.Second, request(long), "second", true},
		{"again with them", 5 * time.Second, request(long), "second", false},
		{"a certificate after its end", 5 * time.Second, request(short), "second", true},
		{"the first certificate after 20 s", 20 * time.Second, request(long), "second", true},
		{"no certificate", 20 * time.Second, request(nil), "second", true},
	} {
		time.Sleep(time.Until(start.Add(step.after)))
		trusted = []byte(step.clientCAs)
		before := calls
		response, ok, err := c.AuthenticateRequest(step.request)
		if !ok || err != nil || response.User.GetName() != "jane" {
			t.Errorf("%s: %v, %v, %v", step.name, response, ok, err)
		}
		if got := calls > before; got != step.verified {
			t.Errorf("%s: verified is %v", step.name, got)
		}
	}
	valid = false
	refused := request(&x509.Certificate{Raw: []byte("refused"), NotAfter: start.Add(time.Hour)})
	for i := range 2 {
		before := calls
		if _, ok, _ := c.AuthenticateRequest(refused); ok || calls != before+1 {
			t.Errorf("refused request %d: authenticated is %v after %d verifications", i, ok, calls-before)
		}
	}
}

// TestCertificateCacheForgetsAnonymousRequests: a certificate that names no user can be
// anonymous at one path and be refused at another.
func TestCertificateCacheForgetsAnonymousRequests(t *testing.T) {
	c := newCertificateCache(anonymous.NewAuthenticator(healthPaths), func() []byte { return nil }, nil)
	unnamed := &x509.Certificate{Raw: []byte("unnamed"), NotAfter: time.Now().Add(time.Hour)}
	for _, request := range []struct {
		path string
		want bool
	}{{"/livez", true}, {"/api", false}, {"/livez", true}} {
		r := httptest.NewRequest(http.MethodGet, request.path, nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{unnamed}}
		if _, ok, err := c.AuthenticateRequest(r); ok != request.want || err != nil {
			t.Errorf("%s: authenticated is %v, want %v; %v", request.path, ok, request.want, err)
		}
	}
}

// BenchmarkClientCertificate authenticates a request with and without the cache. Compare
// the difference with the processor time of a read, of which `make bench
// RUN=throughput-configmaps` shows how many fit in a second.
func BenchmarkClientCertificate(b *testing.B) {
	key := ecdsaKey(b)
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "clients"}, key)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "jane"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	client, err := x509.ParseCertificate(der)
	if err != nil {
		b.Fatal(err)
	}
	options := x509request.DefaultVerifyOptions()
	options.Roots = x509.NewCertPool()
	options.Roots.AddCert(authority)
	each := x509request.New(options, x509request.CommonNameUserConversion)
	request := &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{client}}}
	for name, authenticator := range map[string]authenticator.Request{
		"verified each time": each,
		"cached":             newCertificateCache(each, func() []byte { return nil }, nil),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, ok, err := authenticator.AuthenticateRequest(request); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
