package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// backdate allows for clients whose clock is behind.
	backdate = 5 * time.Minute
)

// authority is a CA. key is nil when only its certificate was placed.
type authority struct {
	name string
	cert *x509.Certificate
	key  crypto.Signer
}

// ensureAuthority loads the CA or, when neither of its files exists, makes it.
func (s *Store) ensureAuthority(name, commonName string) (*authority, error) {
	crt, err := s.readCert(name)
	if err != nil {
		return nil, err
	}
	key, err := s.readKey(name)
	if err != nil {
		return nil, err
	}
	switch {
	case crt == nil && key != nil:
		return nil, fmt.Errorf("%s exists without %s: place both files of the authority, or remove the key to have a new one made", s.Key(name), s.Cert(name))
	case crt != nil && !crt.IsCA:
		return nil, fmt.Errorf("%s is not a CA certificate (basic constraints): place a CA, or remove the file to have one made", s.Cert(name))
	case crt != nil && key != nil && !publicEqual(crt.PublicKey, key.Public()):
		return nil, fmt.Errorf("%s and %s do not belong together: place a matching pair", s.Cert(name), s.Key(name))
	case crt != nil && s.now().After(crt.NotAfter):
		return nil, fmt.Errorf("%s has expired at %s: place a new authority, or remove it and its key to have one made (all clients then need new kubeconfigs)", s.Cert(name), crt.NotAfter.Format(time.RFC3339))
	case crt != nil:
		return &authority{name, crt, key}, nil
	}
	key, err = s.makeKey(name)
	if err != nil {
		return nil, err
	}
	template := s.template(pkix.Name{CommonName: commonName}, authorityLife)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	crt, err = s.sign(name, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &authority{name, crt, key}, nil
}

func (s *Store) template(subject pkix.Name, life time.Duration) *x509.Certificate {
	now := s.now()
	return &x509.Certificate{Subject: subject, NotBefore: now.Add(-backdate), NotAfter: now.Add(life)}
}

// sign makes the certificate and replaces its file.
func (s *Store) sign(name string, template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number for certificate %s: %w", name, err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, fmt.Errorf("sign certificate %s: %w", name, err)
	}
	crt, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back certificate %s: %w", name, err)
	}
	encoded, err := cert.EncodeCertificates(crt)
	if err != nil {
		return nil, fmt.Errorf("encode certificate %s: %w", name, err)
	}
	return crt, datadir.WriteFile(s.Cert(name), encoded, 0o644)
}

// makeKey makes a P-256 key and writes its file.
func (s *Store) makeKey(name string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", name, err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode key %s: %w", name, err)
	}
	return key, datadir.WriteFile(s.Key(name), encoded, 0o600)
}

// readCert returns the first certificate in the file, or nil without a file.
func (s *Store) readCert(name string) (*x509.Certificate, error) {
	data, err := os.ReadFile(s.Cert(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read certificate %s: %w", name, err)
	}
	list, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PEM certificate: %w; replace it, or remove it to have one made", s.Cert(name), err)
	}
	return list[0], nil
}

// readKey returns the key in the file, or nil without a file.
func (s *Store) readKey(name string) (crypto.Signer, error) {
	data, err := os.ReadFile(s.Key(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read key %s: %w", name, err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PEM private key: %w; replace it, or remove it to have one made", s.Key(name), err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, which cannot sign; place an EC or RSA key", s.Key(name), parsed)
	}
	return signer, nil
}

func publicEqual(a, b crypto.PublicKey) bool {
	comparable, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && comparable.Equal(b)
}
