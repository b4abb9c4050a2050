package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
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

// TestChangedCertificatesAreUsed before the answer: the server has read them since the last change.
func TestChangedCertificatesAreUsed(t *testing.T) {
	t.Parallel()
	store := pki.New(filepath.Join(t.TempDir(), "pki"), pki.Names{})
	if _, err := store.Create(); err != nil {
		t.Fatal(err)
	}
	read := func() (content string) {
		for _, name := range []string{pki.ClientCA, pki.APIServer} {
			data, err := os.ReadFile(store.Cert(name))
			if err != nil {
				t.Fatal(err)
			}
			content += string(data)
		}
		return content
	}
	used := read()
	c := &Certificates{
		Identity: identity.Open(identity.Config{}, store), Alone: func(context.Context) (bool, error) { return true, nil },
		Reload: func(context.Context) error { used = read(); return nil },
	}
	for _, change := range []CertificateChange{
		{Rotate: "server"}, {Rotate: "client", Overlap: time.Hour}, {Rotate: "client", Finish: true}, {Rotate: "client"},
	} {
		before := used
		if _, err := c.Change(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if used == before || used != read() {
			t.Errorf("after %+v the server uses what was before", change)
		}
	}
}
