package apiserver

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// trustPoll is the time between two looks at the files of certificates and the revoked keys.
const trustPoll = 2 * time.Second

// errUntrusted is the cause with which the context of an ended request ends.
var errUntrusted = errors.New("the client certificate has expired, was revoked, or is no longer trusted")

// trustedRequests ends long-running requests, such as watches, whose client certificate is
// not trusted any more: other requests are authenticated each. It is safe for concurrent use.
type trustedRequests struct {
	authorities []dynamiccertificates.CAContentProvider // of clients and of front proxies
	files       *certificateFiles
	revoked     func(*x509.Certificate) bool

	mu   sync.Mutex
	open map[*trustedRequest]bool
}

type trustedRequest struct {
	chain []*x509.Certificate // that of the client first
	end   context.CancelCauseFunc
}

func newTrustedRequests(files *certificateFiles, revoked func(*x509.Certificate) bool,
	authorities ...dynamiccertificates.CAContentProvider) *trustedRequests {
	return &trustedRequests{files: files, revoked: revoked, authorities: authorities, open: map[*trustedRequest]bool{}}
}

// track wraps a handler whose requests are authenticated.
func (t *trustedRequests) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := request.RequestInfoFrom(r.Context())
		if !known || !longRunning(r, info) || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		ctx, end := context.WithCancelCause(r.Context())
		defer end(nil)
		tracked := &trustedRequest{r.TLS.PeerCertificates, end}
		t.begin(tracked)
		defer t.forget(tracked)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// begin follows a request. The user of one whose certificate is not trusted has another
// proof, such as a token.
func (t *trustedRequests) begin(tracked *trustedRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isTrusted(tracked.chain, time.Now()) {
		t.open[tracked] = true
	}
}

func (t *trustedRequests) forget(tracked *trustedRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, tracked)
}

// run reads the files of certificates again and ends requests, until ctx ends.
func (t *trustedRequests) run(ctx context.Context) {
	ticker := time.NewTicker(trustPoll)
	defer ticker.Stop()
	before := t.bundles()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			_ = t.files.read(ctx) // it has logged an error
			bundles := t.bundles()
			t.check(now, !bytes.Equal(before, bundles))
			before = bundles
		}
	}
}

func (t *trustedRequests) bundles() []byte {
	var all [][]byte
	for _, authority := range t.authorities {
		all = append(all, authority.CurrentCABundleContent())
	}
	return bytes.Join(all, nil)
}

// check ends the requests whose certificate has expired or is revoked; and, if the
// authorities have changed, those whose certificate none of them has signed.
func (t *trustedRequests) check(now time.Time, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for tracked := range t.open {
		certificate := tracked.chain[0]
		refused := now.After(certificate.NotAfter) || t.revoked(certificate)
		if refused || changed && !t.isTrusted(tracked.chain, now) {
			tracked.end(errUntrusted)
			delete(t.open, tracked)
		}
	}
}

func (t *trustedRequests) isTrusted(chain []*x509.Certificate, now time.Time) bool {
	for _, authority := range t.authorities {
		options, ok := authority.VerifyOptions()
		if !ok {
			continue
		}
		options.CurrentTime, options.Intermediates = now, x509.NewCertPool()
		for _, intermediate := range chain[1:] {
			options.Intermediates.AddCert(intermediate)
		}
		if _, err := chain[0].Verify(options); err == nil {
			return true
		}
	}
	return false
}
