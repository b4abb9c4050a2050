package apiserver

import (
	"encoding/base64"
	"net/http"
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
		token(`{"iss":"two\nlines"}`): `"two\nlines"`,
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
