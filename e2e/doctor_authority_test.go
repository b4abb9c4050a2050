package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
)

// authority signs certificates as a server does, with any validity.
type authority struct {
	crt *x509.Certificate
	key crypto.Signer
}

// pair is a certificate and its key as PEM.
type pair struct{ crt, key []byte }

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T, name string, left time.Duration) authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(left),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return authority{parsePEM(t, signPEM(t, template, template, key.Public(), key)), key}
}

func signPEM(t *testing.T, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func parsePEM(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(data)
	if block == nil {
		t.Fatalf("no PEM: %s", data)
	}
	crt, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return crt
}

// readAuthority reads one of a data directory.
func readAuthority(t *testing.T, dir, name string) authority {
	t.Helper()
	path := filepath.Join(dir, "pki", name)
	return authority{readCertificate(t, path+".crt"), readKey(t, path+".key")}
}

// renew writes the authority's certificate with another end.
func (a authority) renew(t *testing.T, path string, left time.Duration) {
	t.Helper()
	again := *a.crt
	again.NotBefore, again.NotAfter = time.Now().Add(-1000*time.Hour), time.Now().Add(left)
	put(t, path, string(signPEM(t, &again, &again, a.key.Public(), a.key)))
}

// sign makes a certificate for the administrator, valid between two moments from now.
func (a authority) sign(t *testing.T, name string, from, to time.Duration) pair {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{signPEM(t, template, a.crt, key.Public(), a.key), encoded}
}

// signInto replaces the validity of a certificate in the data directory.
func (a authority) signInto(t *testing.T, dir, name string, from, to time.Duration) {
	t.Helper()
	path := filepath.Join(dir, "pki", name)
	again := *readCertificate(t, path+".crt")
	again.NotBefore, again.NotAfter = time.Now().Add(from), time.Now().Add(to)
	put(t, path+".crt", string(signPEM(t, &again, a.crt, readKey(t, path+".key").Public(), a.key)))
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
