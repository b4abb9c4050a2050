package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	"sigs.k8s.io/yaml"
)

// maxIssuer bounds the length of an issuer's name in an error, in bytes.
const maxIssuer = 200

// explainIssuers adds an error to requests with a JSON Web Token of an issuer that is
// not trusted: upstream's authenticators skip such a token, and their error is "invalid
// bearer token".
func explainIssuers(c *genericapiserver.Config, authentication *options.BuiltInAuthenticationOptions) {
	explain := authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		return nil, false, untrustedIssuer(request, func() ([]string, error) { return trustedIssuers(authentication) })
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
	issuer := issuerOf(token)
	if issuer == "" {
		return nil
	}
	list, err := trusted()
	if err != nil || slices.Contains(list, issuer) {
		return nil // the error of another authenticator has the reason
	}
	if len(issuer) > maxIssuer {
		issuer = issuer[:maxIssuer] + "..."
	}
	return fmt.Errorf("the token is of the issuer %q; trusted are %q (apiServer.authentication.configFile)", issuer, list)
}

// issuerOf returns the issuer that a JSON Web Token names, which it does not verify; "" if
// it names none.
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	return claims.Issuer
}

// trustedIssuers returns the issuer of service account tokens and those of the flags or
// of the authentication file, which the server reloads when it changes.
func trustedIssuers(authentication *options.BuiltInAuthenticationOptions) ([]string, error) {
	list := slices.Clone(authentication.ServiceAccounts.Issuers)
	if oidc := authentication.OIDC; oidc != nil && oidc.IssuerURL != "" {
		list = append(list, oidc.IssuerURL)
	}
	path := authentication.AuthenticationConfigFile
	if path == "" {
		return list, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the authentication configuration: %w", err)
	}
	var content apiserverv1.AuthenticationConfiguration // its older versions have the same fields
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("read the authentication configuration %s: %w", path, err)
	}
	for _, entry := range content.JWT {
		list = append(list, entry.Issuer.URL)
	}
	return list, nil
}
