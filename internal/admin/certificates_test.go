package admin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestInvalidChangesAreRefused before anything is changed: there is no identity.
func TestInvalidChangesAreRefused(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"", "{", `{"overlap":"1h"}`, `{"rotate":"client-ca","overlap":-1}`} {
		response := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, certificatesPath+"?change="+url.QueryEscape(change), nil)
		new(Certificates).ServeHTTP(response, request)
		if response.Code != http.StatusBadRequest {
			t.Errorf("%q gets %d", change, response.Code)
		}
	}
}
