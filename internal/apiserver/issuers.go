package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	"sigs.k8s.io/yaml"
)

// maxIssuer bounds the length of the issuer of a token in an error.
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

// untrustedIssuer returns an error if the request has a token of another issuer than
// those that are trusted.
func untrustedIssuer(request *http.Request, trusted func() ([]string, error)) error {
	scheme, token, _ := strings.Cut(strings.TrimSpace(request.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	issuer := claimedIssuer(token)
	if issuer == "" {
		return nil
	}
	list, err := trusted()
	if err != nil || slices.Contains(list, issuer) {
		return nil // another error says more
	}
	if len(issuer) > maxIssuer {
		issuer = issuer[:maxIssuer] + "..."
	}
	return fmt.Errorf("the token is of the issuer %q; trusted are %q (apiServer.authentication.configFile)", issuer, list)
}

// claimedIssuer returns the claim iss of a token, which nothing has verified; empty if it
// has none or is not a JSON Web Token.
func claimedIssuer(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Issuer string `json:"iss"`
	}
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
	if authentication.AuthenticationConfigFile == "" {
		return list, nil
	}
	data, err := os.ReadFile(authentication.AuthenticationConfigFile)
	if err != nil {
		return nil, fmt.Errorf("read the authentication configuration: %w", err)
	}
	var content struct {
		JWT []struct {
			Issuer struct {
				URL string `json:"url"`
			} `json:"issuer"`
		} `json:"jwt"`
	}
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("read the authentication configuration %s: %w", authentication.AuthenticationConfigFile, err)
	}
	for _, entry := range content.JWT {
		list = append(list, entry.Issuer.URL)
	}
	return list, nil
}
