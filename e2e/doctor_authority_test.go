package e2e

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// authority is one of a data directory.
type authority struct{ *harness.Authority }

// pair is a certificate and its key as PEM.
type pair struct{ crt, key []byte }

func readAuthority(t *testing.T, dir, name string) authority {
	t.Helper()
	return authority{harness.ReadAuthority(t, filepath.Join(dir, "pki", name))}
}

// renew writes the authority's certificate with another end.
func (a authority) renew(t *testing.T, path string, left time.Duration) {
	t.Helper()
	again := *a.Certificate
	again.NotBefore, again.NotAfter = time.Now().Add(-1000*time.Hour), time.Now().Add(left)
	harness.WriteFile(t, path, string(harness.EncodeCertificate(a.Sign(t, &again, again.PublicKey))))
}

// issue makes a certificate for the administrator, valid between two moments from now.
func (a authority) issue(t *testing.T, name string, from, to time.Duration) pair {
	t.Helper()
	crt, key := a.Issue(t, &x509.Certificate{
		Subject:   pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return pair{crt, key}
}

// signInto replaces the validity of a certificate in the data directory.
func (a authority) signInto(t *testing.T, dir, name string, from, to time.Duration) {
	t.Helper()
	path := filepath.Join(dir, "pki", name)
	again := *readCertificate(t, path+".crt")
	again.NotBefore, again.NotAfter = time.Now().Add(from), time.Now().Add(to)
	harness.WriteFile(t, path+".crt", string(harness.EncodeCertificate(a.Sign(t, &again, again.PublicKey))))
}

// replaceAdmin gives other credentials to the administrator's kubeconfig.
func replaceAdmin(t *testing.T, dir string, credentials pair) {
	t.Helper()
	path := filepath.Join(dir, "admin.kubeconfig")
	cfg, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range cfg.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData = credentials.crt, credentials.key
	}
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
}
