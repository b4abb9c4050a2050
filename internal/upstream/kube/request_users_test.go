package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/pkg/kubeapiserver/authenticator"
)

const token = "token-of-jane"

// clientCertificate returns the certificate of a client, and its authority in PEM.
func clientCertificate(t *testing.T, name string) (*x509.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "clients"}, key)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := cert.EncodeCertificates(authority)
	if err != nil {
		t.Fatal(err)
	}
	return client, pem
}

// TestOnlyCertificate: where upstream's authenticator takes another user than that of the
// certificate, the certificate is not the only thing that can name
// the user.
func TestOnlyCertificate(t *testing.T) {
	client, authority := clientCertificate(t, "proxy")
	authorities, err := dynamiccertificates.NewStaticCAContent("clients", authority)
	if err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",jane,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	userHeaders := headerrequest.StaticStringSlice{"X-Remote-User", "X-Other-User"}
	authenticate, _, _, _, err := authenticator.Config{
		ClientCAContentProvider: authorities, TokenAuthFile: tokens, Anonymous: apiserver.AnonymousAuthConfig{Enabled: true},
		RequestHeaderConfig: &authenticatorfactory.RequestHeaderConfig{
			UsernameHeaders: userHeaders, UIDHeaders: headerrequest.StaticStringSlice{"X-Remote-Uid"}, GroupHeaders: headerrequest.StaticStringSlice{"X-Remote-Group"},
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"}, AllowedClientNames: headerrequest.StaticStringSlice{"proxy"},
			CAContentProvider: authorities,
		},
	}.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	websocket := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {
		"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token)),
	}}
	for name, test := range map[string]struct {
		header http.Header
		path   string
		user   string
	}{
		"certificate":            {http.Header{}, "/api", "proxy"},
		"groups of a proxy":      {http.Header{"X-Remote-Group": {"system:masters"}, "X-Remote-Uid": {"1"}, "X-Remote-Extra-A": {"b"}}, "/api", "proxy"},
		"user of a proxy":        {http.Header{"X-Remote-User": {"jane"}}, "/api", "jane"},
		"user in another header": {http.Header{"X-Other-User": {"jane"}}, "/api", "jane"},
		"token":                  {http.Header{"Authorization": {"Bearer " + token}}, "/api", "proxy"}, // certificates come first
		"token of a websocket":   {websocket, "/api", "proxy"},
		"token in the query":     {http.Header{}, "/api?access_token=" + token + "&token=" + token, "proxy"},
		"password":               {http.Header{"Authorization": {"Basic amFuZTpqYW5l"}}, "/api", "proxy"},
		"cookie":                 {http.Header{"Cookie": {"token=" + token}}, "/api", "proxy"},
		"impersonation":          {http.Header{"Impersonate-User": {"jane"}}, "/api", "proxy"}, // a later filter
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, test.path, nil)
			r.Header, r.TLS = test.header.Clone(), &tls.ConnectionState{PeerCertificates: []*x509.Certificate{client}}
			only := OnlyCertificate(r, userHeaders)
			response, ok, err := authenticate.AuthenticateRequest(r)
			if !ok || err != nil || response.User.GetName() != test.user {
				t.Fatalf("authenticated: %v, %v, %v, want %s", response, ok, err, test.user)
			}
			if only && response.User.GetName() != client.Subject.CommonName {
				t.Errorf("the certificate hides the user %s", response.User.GetName())
			}
		})
	}
	plain := httptest.NewRequest(http.MethodGet, "/api", nil)
	if plain.TLS = nil; OnlyCertificate(plain, nil) {
		t.Error("a request without a certificate has one")
	}
	plain.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{client}}
	if !OnlyCertificate(plain, nil) || !OnlyCertificate(plain, userHeaders) {
		t.Error("a certificate alone is not the only one")
	}
}
