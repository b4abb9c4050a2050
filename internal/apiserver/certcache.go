package apiserver

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// verifiedFor is how long a client certificate's verification counts. A
	// change of the client CA takes effect within it.
	verifiedFor = 10 * time.Second
	// verifiedClients bounds how many certificates are remembered.
	verifiedClients = 1024
)

// certificateCache remembers which client certificates have been verified.
// Upstream verifies the chain at every request of a connection, which takes a
// tenth of the processor time of a busy server.
type certificateCache struct {
	delegate authenticator.Request
	clock    clock.PassiveClock
	verified *lru.Cache
}

// verification is who a certificate is, until when.
type verification struct {
	response *authenticator.Response
	until    time.Time
}

func newCertificateCache(delegate authenticator.Request) *certificateCache {
	return &certificateCache{delegate: delegate, clock: clock.RealClock{}, verified: lru.New(verifiedClients)}
}

// AuthenticateRequest implements [authenticator.Request].
func (c *certificateCache) AuthenticateRequest(request *http.Request) (*authenticator.Response, bool, error) {
	if !onlyCertificate(request) {
		return c.delegate.AuthenticateRequest(request)
	}
	certificate := request.TLS.PeerCertificates[0]
	key, now := string(certificate.Raw), c.clock.Now()
	if known, ok := c.verified.Get(key); ok && now.Before(known.(verification).until) {
		return known.(verification).response, true, nil
	}
	response, ok, err := c.delegate.AuthenticateRequest(request)
	if ok && err == nil {
		until := now.Add(verifiedFor)
		if certificate.NotAfter.Before(until) {
			until = certificate.NotAfter
		}
		c.verified.Add(key, verification{response, until})
	}
	return response, ok, err
}

// onlyCertificate says that a client certificate is all that could identify
// the request: no token, and no front proxy that speaks for somebody else. Audiences
// belong to tokens and do not matter then.
func onlyCertificate(request *http.Request) bool {
	if request.TLS == nil || len(request.TLS.PeerCertificates) == 0 || request.Header.Get("Authorization") != "" {
		return false
	}
	for _, name := range []string{"X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "Sec-Websocket-Protocol"} {
		if _, ok := request.Header[name]; ok {
			return false
		}
	}
	return true
}
