package planes

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/util/cert"

	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// mayWake reports whether a request to a control plane that sleeps has a certificate or token that
// the control plane has signed, or is from an administrator of the host. Nobody else can start
// servers. It does not check whether a credential has expired or is revoked. Without a readable key,
// as before the first start, it is the administrators who wake it.
func (p *plane) mayWake(r *http.Request) bool {
	if credentialOf(r) == nil {
		return false
	}
	if p.hasSigned(r) {
		return true
	}
	name, err := p.manager.administrators.may(r,
		authorizer.AttributesRecord{Verb: "update", Subresource: adminSubresource, Name: p.name})
	return err == nil && name != ""
}

// hasSigned reports whether a request has a certificate or token that the control plane has signed.
func (p *plane) hasSigned(r *http.Request) bool {
	keys := pki.New(filepath.Join(p.dir(), "pki"), pki.Names{})
	return isCertified(keys, r) || isSigned(keys, r)
}

// isCertified reports whether an authority for clients has signed the certificate of the request.
func isCertified(keys *pki.Store, r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, authority := range []string{pki.ClientCA, pki.FrontProxyCA} {
		trusted, _ := cert.CertsFromFile(keys.Cert(authority)) // none after an error
		for _, certificate := range trusted {
			options.Roots.AddCert(certificate)
		}
	}
	for _, certificate := range r.TLS.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(options)
	return err == nil
}

// isSigned reports whether a key of service account tokens has signed the token of the request.
func isSigned(keys *pki.Store, r *http.Request) bool {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token, err := jwt.ParseSigned(strings.TrimSpace(text))
	if !strings.EqualFold(scheme, "Bearer") || err != nil {
		return false
	}
	trusted, _ := keys.TokenKeys() // none after an error
	return slices.ContainsFunc(trusted.Verify,
		func(key crypto.PublicKey) bool { return token.Claims(key, &jwt.Claims{}) == nil })
}

// credentialOf returns a hash of the credentials of a request, or nil without any.
func credentialOf(r *http.Request) []byte {
	token := r.Header.Get("Authorization")
	hash := sha256.New()
	hash.Write([]byte(token))
	certificate := r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	if certificate {
		hash.Write([]byte{0})
		hash.Write(r.TLS.PeerCertificates[0].Raw)
	}
	if token == "" && !certificate {
		return nil
	}
	return hash.Sum(nil)
}

// moveToken moves the token that is among the websocket protocols, as browsers send it, to the header
// where all others are.
func moveToken(r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		return
	}
	move := func(_ context.Context, token string) (*authenticator.Response, bool, error) {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil, true, nil // upstream removes it from the protocols
	}
	// What is wrong stays where it is, and the control plane reports it.
	_, _, _ = websocket.NewProtocolAuthenticator(authenticator.TokenFunc(move)).AuthenticateRequest(r)
}
