package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func pemOf(t *testing.T, block string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}))
}

// TestReadPublicKeys: every form that upstream's --service-account-key-file
// knows, and ECDSA keys in PKCS#8.
func TestReadPublicKeys(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return pemOf(t, "PRIVATE KEY", der, err)
	}
	pkix := func(key any) string {
		der, err := x509.MarshalPKIXPublicKey(key)
		return pemOf(t, "PUBLIC KEY", der, err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	ecPEM := pemOf(t, "EC PRIVATE KEY", sec1, err)
	s := created(t)
	certificatePEM, err := os.ReadFile(s.Cert(Admin))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content string
		want    []crypto.PublicKey
	}{
		"EC in PKCS#8":      {pkcs8(ec), []crypto.PublicKey{ec.Public()}},
		"RSA in PKCS#8":     {pkcs8(rsaKey), []crypto.PublicKey{rsaKey.Public()}},
		"EC":                {ecPEM, []crypto.PublicKey{ec.Public()}},
		"RSA":               {pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil), []crypto.PublicKey{rsaKey.Public()}},
		"several":           {pkix(ec.Public()) + "a remark\n" + pkix(rsaKey.Public()), []crypto.PublicKey{ec.Public(), rsaKey.Public()}},
		"a certificate":     {string(certificatePEM), []crypto.PublicKey{certificate(t, s, Admin).PublicKey}},
		"one that is unfit": {pkcs8(ed) + ecPEM, []crypto.PublicKey{ec.Public()}},
		"none":              {pkcs8(ed), nil},
		"garbage":           {"garbage", nil},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "keys.pem")
			overwrite(t, file, test.content)
			got, err := ReadPublicKeys(file)
			if !slices.EqualFunc(got, test.want, publicEqual) {
				t.Errorf("got %d keys, want %d", len(got), len(test.want))
			}
			if (err == nil) != (test.want != nil) || err != nil && !strings.Contains(err.Error(), file) {
				t.Errorf("it said: %v", err)
			}
		})
	}
}

// TestTokenKeyThatCannotSign is named before a server starts with it.
func TestTokenKeyThatCannotSign(t *testing.T) {
	s := created(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed)
	overwrite(t, s.Key(ServiceAccount), pemOf(t, "PRIVATE KEY", der, err))
	if _, err := s.Ensure(); err == nil || !strings.Contains(err.Error(), "RSA and ECDSA keys only") {
		t.Errorf("it said: %v", err)
	}
}
