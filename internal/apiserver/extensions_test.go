package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// TestAudienceChecked: credentials for other audiences than the API's are not accepted, as upstream's
// handler chain does; the authenticator knows those of the API.
func TestAudienceChecked(t *testing.T) {
	for name, test := range map[string]struct {
		api, response authenticator.Audiences
		want          bool
	}{
		"no audiences":          {nil, authenticator.Audiences{"other"}, true},
		"agnostic credentials":  {authenticator.Audiences{"api"}, nil, true},
		"one of the API's":      {authenticator.Audiences{"api", "second"}, authenticator.Audiences{"second"}, true},
		"for another recipient": {authenticator.Audiences{"api"}, authenticator.Audiences{"other"}, false},
	} {
		asked := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			if known, _ := authenticator.AudiencesFrom(r.Context()); len(known) != len(test.api) {
				t.Errorf("%s: the authenticator knows %v", name, known)
			}
			return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}, Audiences: test.response}, true, nil
		})
		checked := audienceChecked(genericapiserver.AuthenticationInfo{Authenticator: asked, APIAudiences: test.api})
		_, ok, err := checked.AuthenticateRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil))
		if ok != test.want || err != nil {
			t.Errorf("%s: accepted %t, %v", name, ok, err)
		}
	}
}
