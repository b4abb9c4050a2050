package apiserver

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// clientCAs returns the client CAs in the files. It reloads changed files.
func clientCAs(files []string) (dynamiccertificates.CAContentProvider, error) {
	var providers []dynamiccertificates.CAContentProvider
	for _, file := range files {
		provider, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", file)
		if err != nil {
			return nil, fmt.Errorf("read the client CAs: %w", err)
		}
		providers = append(providers, provider)
	}
	if len(providers) == 1 {
		return providers[0], nil
	}
	return dynamiccertificates.NewUnionCAContentProvider(providers...), nil
}

// errRevoked is the error of a request with a revoked client certificate.
var errRevoked = errors.New("the key of the client certificate has been revoked")

// refuseRevoked returns an authenticator that refuses requests with a revoked client
// certificate.
func refuseRevoked(delegate authenticator.Request, revoked func(*x509.Certificate) bool) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		if request.TLS != nil && slices.ContainsFunc(request.TLS.PeerCertificates, revoked) {
			return nil, false, errRevoked
		}
		return delegate.AuthenticateRequest(request)
	})
}

// ReloadClientCAs reads the files of the client CAs again, which else happens some time after
// a change: upstream needs an inotify instance for that, of which the kernel has few. It does
// nothing before [New].
func (o *Options) ReloadClientCAs(ctx context.Context) error {
	if files, ok := o.upstream.Authentication.ClientCert.CAContentProvider.(dynamiccertificates.ControllerRunner); ok {
		return files.RunOnce(ctx)
	}
	return nil
}
