package apiserver

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	apiserverserviceaccount "k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// anyClaims accepts every token whose signature verifies.
type anyClaims struct{}

func (anyClaims) Validate(context.Context, string, *jwt.Claims, *map[string]any) (*apiserverserviceaccount.ServiceAccountInfo, error) {
	return &apiserverserviceaccount.ServiceAccountInfo{Namespace: "default", Name: "robot"}, nil
}

type countedListener struct{ calls int }

func (l *countedListener) Enqueue() { l.calls++ }

func ecdsaKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestTokenKeysChange: a token is accepted while its key is one of those that verify.
func TestTokenKeysChange(t *testing.T) {
	first, second := ecdsaKey(t), ecdsaKey(t)
	keys := NewTokenKeys()
	if err := keys.Set(first, []crypto.PublicKey{first.Public()}); err != nil {
		t.Fatal(err)
	}
	listener := &countedListener{}
	keys.AddListener(listener)
	authenticator := serviceaccount.JWTTokenAuthenticator([]string{issuer}, keys, []string{"api"}, anyClaims{})
	token := func() string {
		t.Helper()
		text, err := keys.GenerateToken(t.Context(), &jwt.Claims{Audience: jwt.Audience{"api"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}, map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	accepted := func(token string) bool {
		_, ok, err := authenticator.AuthenticateToken(t.Context(), token)
		return ok && err == nil
	}
	before := token()
	if err := keys.Set(second, []crypto.PublicKey{second.Public(), first.Public()}); err != nil {
		t.Fatal(err)
	}
	after := token()
	if !accepted(before) || !accepted(after) {
		t.Errorf("in the overlap: old accepted %t, new %t", accepted(before), accepted(after))
	}
	if err := keys.Set(second, []crypto.PublicKey{second.Public()}); err != nil {
		t.Fatal(err)
	}
	if accepted(before) || !accepted(after) {
		t.Errorf("after it: old accepted %t, new %t", accepted(before), accepted(after))
	}
	if listener.calls != 2 {
		t.Errorf("the discovery of keys was called %d times, want 2", listener.calls)
	}
	_, unfit, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := keys.Set(unfit, []crypto.PublicKey{unfit.Public()}); err == nil || !accepted(token()) {
		t.Errorf("a key that cannot sign tokens: %v", err)
	}
}

// TestImpersonatedControllers: requests of the names of controllers count as theirs if they come from this
// process, or if controllers have authenticated; not if others impersonate them, or use their tokens.
func TestImpersonatedControllers(t *testing.T) {
	const collector, loopback = "system:serviceaccount:kube-system:generic-garbage-collector", "127.0.0.1:0"
	for _, test := range []struct {
		address, authenticated, as string
		want                       bool
	}{
		{loopback, "", user.KubeControllerManager, true},
		{loopback, "", collector, true},
		{loopback, "", webhookUser, false},
		{"10.0.0.1:2000", user.KubeControllerManager, user.KubeControllerManager, true},
		{"10.0.0.1:2000", user.KubeControllerManager, collector, true},
		{"10.0.0.1:2000", collector, collector, false},
		{"10.0.0.1:2000", administrator, user.KubeControllerManager, false},
		{"10.0.0.1:2000", "jane", user.KubeControllerManager, false},
		{"10.0.0.1:2000", "jane", collector, false},
	} {
		authenticate := refuseRevoked(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: &user.DefaultInfo{Name: test.authenticated}}, test.address != loopback, nil
		}), func(*x509.Certificate) bool { return false })
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil)
		r.RemoteAddr = test.address
		markControllers(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if _, _, err := authenticate.AuthenticateRequest(r); err != nil { // upstream's chain authenticates, and then impersonates
				t.Fatal(err)
			}
			ctx := request.WithUser(r.Context(), &user.DefaultInfo{Name: test.as})
			if got := requesterName(ctx) == controllerRequesters; got != test.want {
				t.Errorf("requests of %q as %s from %s are of the controllers: %t", test.authenticated, test.as, test.address, got)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
	}
}
