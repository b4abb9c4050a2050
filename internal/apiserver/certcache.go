package apiserver

import (
	"bytes"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	// verifiedFor is how long the verification of a client certificate is used, as
	// long as upstream uses that of a token.
	verifiedFor = 10 * time.Second
	// maxVerified bounds the number of certificates in the cache.
	maxVerified = 1024
)

// certificateCache authenticates requests by client certificates that were verified within
// verifiedFor. Upstream verifies the certificate at each request of a connection, which
// takes 0.08 ms of processor time (BenchmarkClientCertificate), more than a quarter of that
// of a small read: see the table of optimisations in ARCHITECTURE.md. It is safe for
// concurrent use.
type certificateCache struct {
	delegate authenticator.Request
	// clientCAs returns the trusted client CAs in PEM.
	clientCAs func() []byte
	// userHeaders are the headers in which a front proxy names the user; nil for no
	// front proxy.
	userHeaders headerrequest.StringSliceProvider
	verified    *cache.LRUExpireCache // *verification by the certificate
}

// verification is the user that a certificate identifies while clientCAs are trusted.
type verification struct {
	response  *authenticator.Response
	clientCAs []byte
}

func newCertificateCache(delegate authenticator.Request, clientCAs func() []byte,
	userHeaders headerrequest.StringSliceProvider) *certificateCache {
	return &certificateCache{delegate: delegate, clientCAs: clientCAs, userHeaders: userHeaders,
		verified: cache.NewLRUExpireCache(maxVerified)}
}

// AuthenticateRequest implements [authenticator.Request].
func (c *certificateCache) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if !kube.OnlyCertificate(r, c.userHeaders) {
		return c.delegate.AuthenticateRequest(r)
	}
	certificate := r.TLS.PeerCertificates[0]
	key, trusted := string(certificate.Raw), c.clientCAs()
	if known, ok := c.verified.Get(key); ok && bytes.Equal(known.(*verification).clientCAs, trusted) {
		return known.(*verification).response, true, nil
	}
	response, ok, err := c.delegate.AuthenticateRequest(r)
	// Whether a request may be anonymous depends on its path, not on its certificate.
	if ok && err == nil && response.User.GetName() != user.Anonymous {
		c.verified.Add(key, &verification{response, trusted}, min(verifiedFor, time.Until(certificate.NotAfter)))
	}
	return response, ok, err
}
