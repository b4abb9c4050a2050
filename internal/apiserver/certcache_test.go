package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestCertificatesAreVerifiedOnceInAWhile(t *testing.T) {
	start := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(start)
	asked, valid := 0, true
	cache := newCertificateCache(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		asked++
		return &authenticator.Response{User: &user.DefaultInfo{Name: "somebody"}}, valid, nil
	}))
	cache.clock = clock
	certificate := func(raw string, life time.Duration) *x509.Certificate {
		return &x509.Certificate{Raw: []byte(raw), NotAfter: start.Add(life)}
	}
	long, short := certificate("long", time.Hour), certificate("short", time.Second)
	request := func(certificate *x509.Certificate, header ...string) *http.Request {
		r := &http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate}}}
		for _, name := range header {
			r.Header.Set(name, "x")
		}
		return r
	}
	for _, step := range []struct {
		name    string
		after   time.Duration
		request *http.Request
		asks    bool
	}{
		{"a new certificate", 0, request(long), true},
		{"the same one", 0, request(long), false},
		{"the same one with a token", 0, request(long, "Authorization"), true},
		{"a front proxy", 0, request(long, "X-Remote-User"), true},
		{"another one", 0, request(short), true},
		{"the first one, later", 5 * time.Second, request(long), false},
		{"the other one, after its end", 5 * time.Second, request(short), true},
		{"the first one, much later", 20 * time.Second, request(long), true},
		{"no certificate", 20 * time.Second, &http.Request{Header: http.Header{}}, true},
	} {
		clock.SetTime(start.Add(step.after))
		before := asked
		if _, ok, err := cache.AuthenticateRequest(step.request); !ok || err != nil {
			t.Errorf("%s: %v, %v", step.name, ok, err)
		}
		if (asked > before) != step.asks {
			t.Errorf("%s: asked %d times", step.name, asked-before)
		}
	}
	// A refusal is not remembered, and does not become an approval.
	valid = false
	refused := request(certificate("refused", time.Hour))
	for range 2 {
		before := asked
		if _, ok, _ := cache.AuthenticateRequest(refused); ok || asked != before+1 {
			t.Errorf("refused: %v, asked %d times", ok, asked-before)
		}
	}
}
