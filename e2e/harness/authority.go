package harness

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Authority signs certificates of a test.
type Authority struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// NewAuthority makes an authority that is valid for five years.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().AddDate(5, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	a := &Authority{template, key}
	a.Certificate = a.Sign(t, template, key.Public())
	return a
}

// ReadAuthority reads PATH.crt and PATH.key.
func ReadAuthority(t testing.TB, path string) *Authority {
	t.Helper()
	certificates, err := cert.CertsFromFile(path + ".crt")
	if err != nil {
		t.Fatal(err)
	}
	key, err := keyutil.PrivateKeyFromFile(path + ".key")
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{certificates[0], key.(crypto.Signer)}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Sign makes a certificate for a public key, with a serial number of its own. It is valid
// for a day, unless the template says otherwise.
func (a *Authority) Sign(t testing.TB, template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	t.Helper()
	whole := *template
	whole.SerialNumber = big.NewInt(time.Now().UnixNano())
	if whole.NotBefore.IsZero() {
		whole.NotBefore = time.Now().Add(-time.Hour)
	}
	if whole.NotAfter.IsZero() {
		whole.NotAfter = time.Now().Add(24 * time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, &whole, a.Certificate, public, a.Key)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// Issue makes a key and a certificate for it, in PEM.
func (a *Authority) Issue(t testing.TB, template *x509.Certificate) (certificate, key []byte) {
	t.Helper()
	signer := newKey(t)
	key, err := keyutil.MarshalPrivateKeyToPEM(signer)
	if err != nil {
		t.Fatal(err)
	}
	return EncodeCertificate(a.Sign(t, template, signer.Public())), key
}

// Write writes the authority to PATH.crt and PATH.key.
func (a *Authority) Write(t testing.TB, path string) {
	t.Helper()
	key, err := keyutil.MarshalPrivateKeyToPEM(a.Key)
	if err != nil {
		t.Fatal(err)
	}
	WritePair(t, path, EncodeCertificate(a.Certificate), key)
}

// EncodeCertificate returns a certificate in PEM.
func EncodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

// WritePair writes a certificate and its key to PATH.crt and PATH.key.
func WritePair(t testing.TB, path string, certificate, key []byte) {
	t.Helper()
	for suffix, content := range map[string][]byte{".crt": certificate, ".key": key} {
		if err := os.WriteFile(path+suffix, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
