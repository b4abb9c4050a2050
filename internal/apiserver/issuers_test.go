package apiserver

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// TestRefusedTokensNameTheirIssuer, if they have one.
func TestRefusedTokensNameTheirIssuer(t *testing.T) {
	c := &genericapiserver.Config{}
	c.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, nil
	})
	explainIssuers(c)
	token := func(claims string) string {
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
	}
	for header, want := range map[string]string{
		"":                            "",
		"Basic YTpi":                  "",
		"Bearer abcdef.0123":          "",
		"Bearer a.%.c":                "",
		token("no JSON"):              "",
		token(`{"sub":"jane"}`):       "",
		token(`{"iss":"two\nlines"}`): `the token names the issuer "two\nlines"`,
		"b" + token(`{"iss":"` + strings.Repeat("x", 1000) + `"}`)[1:]: strings.Repeat("x", 200) + `..."`,
	} {
		request := &http.Request{Header: http.Header{}} // as that of a TokenReview: nothing else
		request.Header.Set("Authorization", header)
		_, _, err := c.Authentication.Authenticator.AuthenticateRequest(request)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", header, err, want)
		}
	}
}

// TestHealthWithCredentials: the health checks need none, and wrong ones are refused there too.
func TestHealthWithCredentials(t *testing.T) {
	c := &genericapiserver.Config{}
	c.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if r.Header.Get("Authorization") != "" {
			return nil, false, errors.New("invalid bearer token")
		}
		return nil, false, nil
	})
	if err := allowAnonymousHealth(c, ""); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, token string
		want        bool
	}{
		{"/livez", "", true}, {"/readyz", "", true}, {"/healthz", "", true}, {"/version", "", false},
		{"/livez", "x", false}, {"/readyz", "x", false}, {"/healthz", "x", false},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, nil)
		if test.token != "" {
			request.Header.Set("Authorization", "Bearer "+test.token)
		}
		if _, ok, err := c.Authentication.Authenticator.AuthenticateRequest(request); ok != test.want {
			t.Errorf("%s with the token %q: %t, %v", test.path, test.token, ok, err)
		}
	}
}
