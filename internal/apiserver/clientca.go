package apiserver

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// clientCAs trusts the authorities in the files and follows their changes.
func clientCAs(files []string) (dynamiccertificates.CAContentProvider, error) {
	var providers []dynamiccertificates.CAContentProvider
	for _, file := range files {
		provider, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", file)
		if err != nil {
			return nil, fmt.Errorf("read the authorities of clients: %w", err)
		}
		providers = append(providers, provider)
	}
	if len(providers) == 1 {
		return providers[0], nil
	}
	return dynamiccertificates.NewUnionCAContentProvider(providers...), nil
}

// errRevoked is why a request is not authenticated.
var errRevoked = errors.New("the key of the client certificate has been revoked")

// refuseRevoked authenticates no request that comes with a revoked client
// certificate.
func refuseRevoked(delegate authenticator.Request, revoked func(*x509.Certificate) bool) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		if request.TLS != nil && slices.ContainsFunc(request.TLS.PeerCertificates, revoked) {
			return nil, false, errRevoked
		}
		return delegate.AuthenticateRequest(request)
	})
}

// ClientCAs are the authorities of clients that are trusted now, in PEM; empty
// before [New].
func (o *Options) ClientCAs() []byte {
	trusted := o.upstream.Authentication.ClientCert.CAContentProvider
	if trusted == nil {
		return nil
	}
	return trusted.CurrentCABundleContent()
}
