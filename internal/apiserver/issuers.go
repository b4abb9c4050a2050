package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

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
		return nil, false, fmt.Errorf("the token is of the issuer %q, which must be one of "+
			"apiServer.authentication.configFile", issuer)
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
