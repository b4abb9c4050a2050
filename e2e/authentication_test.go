package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestOIDC: upstream's AuthenticationConfiguration admits the users of an
// OpenID Connect provider.
func TestOIDC(t *testing.T) {
	t.Parallel()
	i := harness.NewIssuer(t)
	s := harness.Authenticated(t, i.Trusted())
	harness.Eventually(t, "the server has fetched the provider's keys", func() error {
		out, err := outsider(t, s, "--token", i.Token(nil))("auth", "whoami")
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
		"another issuer":   {jwt.MapClaims{"iss": "https://elsewhere.example.com"}, []string{"the token names the issuer", "https://elsewhere.example.com"}},
		"it has ended":     {jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}, []string{"token is expired"}},
	} {
		logged := len(s.Log())
		out, err := outsider(t, s, "--token", i.Token(c.changes))("auth", "whoami")
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
			s := harness.Authenticated(t, c.config)
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
