package apiserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"kube-hyper-mini.io/kube-hyper-mini/internal/issuers"
)

// explainIssuers adds an error to requests with a JSON Web Token of an issuer that is
// not trusted: upstream's authenticators skip such a token, and their error is "invalid
// bearer token".
func explainIssuers(c *genericapiserver.Config, authentication *options.BuiltInAuthenticationOptions) {
	file := issuers.NewFile(authentication.AuthenticationConfigFile)
	explain := authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		return nil, false, untrustedIssuer(request, func() ([]string, error) { return trustedIssuers(authentication, file) })
	})
	c.Authentication.Authenticator = union.New(c.Authentication.Authenticator, explain)
}

// untrustedIssuer returns an error if the request has a token of an issuer that is not
// trusted.
func untrustedIssuer(request *http.Request, trusted func() ([]string, error)) error {
	scheme, token, _ := strings.Cut(strings.TrimSpace(request.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	claims := issuers.ParseClaims(token)
	if claims == nil || claims.Issuer == "" {
		return nil
	}
	list, err := trusted()
	if err != nil || slices.Contains(list, claims.Issuer) {
		return nil // the error of another authenticator has the reason
	}
	return fmt.Errorf("the token is of the issuer %s; trusted are %q (apiServer.authentication.configFile)", issuers.Quoted(claims.Issuer), list)
}

// trustedIssuers returns the issuer of service account tokens and those of the flags or
// of the authentication file, which the server reloads when it changes.
func trustedIssuers(authentication *options.BuiltInAuthenticationOptions, file *issuers.File) ([]string, error) {
	list := slices.Clone(authentication.ServiceAccounts.Issuers)
	if oidc := authentication.OIDC; oidc != nil && oidc.IssuerURL != "" {
		list = append(list, oidc.IssuerURL)
	}
	urls, err := file.URLs()
	return append(list, urls...), err
}
