package apiserver

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// healthPaths are served without credentials, for load balancers and probes.
var healthPaths = []apiserver.AnonymousAuthCondition{{Path: "/livez"}, {Path: "/readyz"}, {Path: "/healthz"}}

// allowAnonymousHealth allows anonymous requests to healthPaths, unless the
// authentication file has an anonymous section. Upstream's default, with or without a
// file, allows them to everything that RBAC grants to system:unauthenticated, and its
// flag does not support paths.
func allowAnonymousHealth(c *genericapiserver.Config, authenticationFile string) error {
	configured, err := configuresAnonymous(authenticationFile)
	if err != nil || configured {
		return err
	}
	c.Authentication.Authenticator = union.NewFailOnError(c.Authentication.Authenticator,
		kube.WithPath(anonymous.NewAuthenticator(healthPaths)))
	return nil
}

// configuresAnonymous reports whether the authentication file has an anonymous section.
func configuresAnonymous(file string) (bool, error) {
	if file == "" {
		return false, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return false, fmt.Errorf("read the authentication configuration: %w", err)
	}
	var content struct {
		Anonymous *struct{} `json:"anonymous"`
	}
	if err := yaml.Unmarshal(data, &content); err != nil {
		return false, fmt.Errorf("read the authentication configuration %s: %w", file, err)
	}
	return content.Anonymous != nil, nil
}

// maxIssuer bounds the length of an issuer's name in an error, in bytes.
const maxIssuer = 200

// explainIssuers adds an error with the issuer to requests whose JSON Web Token no
// authenticator accepts: upstream's skip a token of an issuer that is not trusted, and their
// error is "invalid bearer token".
func explainIssuers(c *genericapiserver.Config) {
	explain := authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		scheme, token, _ := strings.Cut(strings.TrimSpace(request.Header.Get("Authorization")), " ")
		issuer := issuerOf(token)
		switch {
		case !strings.EqualFold(scheme, "Bearer") || issuer == "":
			return nil, false, nil
		case len(issuer) > maxIssuer:
			issuer = issuer[:maxIssuer] + "..."
		}
		return nil, false, fmt.Errorf("the token names the issuer %q", issuer)
	})
	c.Authentication.Authenticator = union.New(c.Authentication.Authenticator, explain)
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
// certificate, and sets ofControllers.
func refuseRevoked(delegate authenticator.Request, revoked func(*x509.Certificate) bool) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		if request.TLS != nil && slices.ContainsFunc(request.TLS.PeerCertificates, revoked) {
			return nil, false, errRevoked
		}
		response, ok, err := delegate.AuthenticateRequest(request)
		if marked, has := request.Context().Value(ofControllers{}).(*bool); has && ok {
			*marked = *marked || response.User.GetName() == user.KubeControllerManager
		}
		return response, ok, err
	})
}
