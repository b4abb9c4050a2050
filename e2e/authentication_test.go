package e2e

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

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// issuer is an OpenID Connect provider with one key.
type issuer struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	server *httptest.Server
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
	point, err := key.PublicKey.Bytes() // the byte 4, then x and y
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		i.answer(w, r, map[string]any{"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.answer(w, r, map[string]any{"keys": []any{map[string]any{
			"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "one", "x": encode(point[1:33]), "y": encode(point[33:]),
		}}})
	})
	i.server = httptest.NewTLSServer(mux)
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) answer(w http.ResponseWriter, r *http.Request, content any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(content); err != nil && r.Context().Err() == nil { // otherwise the client has disconnected
		i.t.Error(err)
	}
}

// token for a user, with changes to its claims.
func (i *issuer) token(changes jwt.MapClaims) string {
	i.t.Helper()
	claims := jwt.MapClaims{
		"iss": i.server.URL, "aud": "mini", "sub": "jane", "groups": []string{"developers"}, "team": "blue",
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

// authenticated starts a server with an AuthenticationConfiguration.
func authenticated(t *testing.T, content string) *harness.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "authentication.yaml")
	content = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n" + content
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return harness.Start(t, "--config", harness.ConfigFile(t, "apiServer: {authentication: {configFile: "+file+"}}"))
}

// TestOIDC: upstream's AuthenticationConfiguration admits the users of an
// OpenID Connect provider.
func TestOIDC(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})
	s := authenticated(t, fmt.Sprintf(`jwt:
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
`, i.server.URL, strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n      ")))

	harness.Eventually(t, "the server has fetched the provider's keys", func() error {
		out, err := outsider(t, s, "--token", i.token(nil))("auth", "whoami")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		harness.Contains(t, out, "oidc:jane", "oidc:developers", "system:authenticated")
		return nil
	})
	for name, c := range map[string]struct {
		changes jwt.MapClaims
		log     []string
	}{
		"another audience": {jwt.MapClaims{"aud": "maxi"}, []string{"expected audience", "maxi"}},
		"another team":     {jwt.MapClaims{"team": "red"}, []string{"not of this team"}},
		"another issuer":   {jwt.MapClaims{"iss": "https://elsewhere.example.com"}, []string{"the token is of the issuer", "https://elsewhere.example.com", "trusted are", i.server.URL}},
		"it has ended":     {jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}, []string{"token is expired"}},
	} {
		logged := len(s.Log())
		out, err := outsider(t, s, "--token", i.token(c.changes))("auth", "whoami")
		if err == nil {
			t.Errorf("%s, and the token is accepted: %s", name, out)
		}
		harness.Contains(t, out, "Unauthorized")
		harness.Eventually(t, name+" is in the log", func() error {
			lines := s.Log()[logged:]
			for _, part := range append(c.log, "Unable to authenticate the request") {
				if !strings.Contains(lines, part) {
					return fmt.Errorf("%q is not in:\n%s", part, lines)
				}
			}
			return nil
		})
	}
	// The file does not configure anonymous requests: the default stays.
	healthy(t, anonymous(), s.RESTConfig().Host+"/readyz")
	body(t, anonymous(), s.RESTConfig().Host+"/version", http.StatusUnauthorized)
}

// TestAnonymousByConfiguration: the file configures anonymous requests.
func TestAnonymousByConfiguration(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config string
		status map[string]int
	}{
		"disabled":     {"anonymous: {enabled: false}\n", map[string]int{"/livez": http.StatusUnauthorized, "/version": http.StatusUnauthorized}},
		"one endpoint": {"anonymous: {enabled: true, conditions: [{path: /livez}]}\n", map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusUnauthorized}},
		"enabled":      {"anonymous: {enabled: true}\n", map[string]int{"/version": http.StatusOK, "/api/v1/secrets": http.StatusForbidden}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := authenticated(t, c.config)
			for path, status := range c.status {
				if status == http.StatusOK {
					healthy(t, anonymous(), s.RESTConfig().Host+path)
					continue
				}
				body(t, anonymous(), s.RESTConfig().Host+path, status)
			}
		})
	}
}
