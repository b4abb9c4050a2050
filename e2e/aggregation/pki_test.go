package aggregation

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// authority signs the certificates of one test's servers.
type authority struct {
	*harness.Authority
	// bundle is the value of caBundle.
	bundle []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := harness.NewAuthority(t, "test CA")
	return &authority{a, harness.EncodeCertificate(a.Certificate)}
}

// issue returns a serving certificate and its key as PEM.
func (a *authority) issue(t testing.TB, name string) (certificate, key []byte) {
	t.Helper()
	return a.Issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// keyPair is issue for a server in this process.
func (a *authority) keyPair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// certificateFiles are where a server process reads its certificate.
type certificateFiles struct{ certificate, key string }

func newCertificateFiles(t testing.TB, a *authority, name string) certificateFiles {
	t.Helper()
	dir := t.TempDir()
	files := certificateFiles{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
	files.renew(t, a, name)
	return files
}

// renew replaces the files' content as a rotation does.
func (f certificateFiles) renew(t testing.TB, a *authority, name string) {
	t.Helper()
	certificate, key := a.issue(t, name)
	for path, content := range map[string][]byte{f.certificate: certificate, f.key: key} {
		harness.WriteFile(t, path+".new", string(content))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

func encode(pem []byte) string { return base64.StdEncoding.EncodeToString(pem) }
