package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer is an OpenID Connect provider on loopback with one key. Tests may use it from
// several goroutines.
type Issuer struct {
	// URL of the issuer.
	URL string

	t           *testing.T
	key         *ecdsa.PrivateKey
	certificate []byte // PEM
}

// NewIssuer returns an issuer that serves until the test ends.
func NewIssuer(t *testing.T) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes() // the byte 4, then x and y
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{t: t, key: key}
	encode := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		i.answer(w, r, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.answer(w, r, map[string]any{"keys": []any{map[string]any{
			"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "one", "x": encode(point[1:33]), "y": encode(point[33:]),
		}}})
	})
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return i
}

func (i *Issuer) answer(w http.ResponseWriter, r *http.Request, content any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(content); err != nil && r.Context().Err() == nil { // otherwise the client has disconnected
		i.t.Error(err)
	}
}

// Token returns a token for the user jane of the team blue, for the audience mini and one
// hour, with changes to its claims.
func (i *Issuer) Token(changes jwt.MapClaims) string {
	i.t.Helper()
	claims := jwt.MapClaims{
		"iss": i.URL, "aud": "mini", "sub": "jane", "groups": []string{"developers"}, "team": "blue",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range changes {
		claims[name] = value
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = "one"
	signed, err := token.SignedString(i.key)
	if err != nil {
		i.t.Fatal(err)
	}
	return signed
}

// Trusted returns the part of an AuthenticationConfiguration that trusts the issuer: the
// user is "oidc:" and the subject, the groups have the same prefix, and the team is blue.
func (i *Issuer) Trusted() string {
	return fmt.Sprintf(`jwt:
- issuer:
    url: %s
    audiences: [mini]
    certificateAuthority: |
      %s
  claimMappings:
    username: {claim: sub, prefix: "oidc:"}
    groups: {claim: groups, prefix: "oidc:"}
  claimValidationRules:
  - {expression: "claims.team == 'blue'", message: not of this team}
`, i.URL, strings.ReplaceAll(strings.TrimSpace(string(i.certificate)), "\n", "\n      "))
}

// Authenticated starts a server with an AuthenticationConfiguration.
func Authenticated(t *testing.T, content string) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	content = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n" + content
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t, "--config", ConfigFile(t, "apiServer: {authentication: {configFile: "+file+"}}"))
}
