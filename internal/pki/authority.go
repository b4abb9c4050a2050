package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// backdate allows for clients whose clock is behind, and for a clock that was ahead when
	// a certificate was made, for example by a time zone.
	backdate = 24 * time.Hour
)

// authority is a CA: the trusted certificates of its bundle, and the one that
// signs.
type authority struct {
	name    string
	trusted []*x509.Certificate // nil where the authority does not exist
	cert    *x509.Certificate   // belongs to key; nil without a key
	key     crypto.Signer       // nil where it is kept elsewhere
	cross   *x509.Certificate   // cert as the authority before it has signed it; nil outside of a rotation
}

// ensureAuthority loads the authority and checks that it can be used. Where it
// does not exist and create is set, it is made.
func (s *Store) ensureAuthority(name, commonName string, create bool) (*authority, []Change, error) {
	ca, err := s.loadAuthority(name)
	if err != nil {
		return nil, nil, err
	}
	var changes []Change
	if ca.trusted == nil {
		if !create {
			return nil, nil, &MissingError{Files: []string{s.Cert(name)}}
		}
		if ca, err = s.makeAuthority(name, commonName); err != nil {
			return nil, nil, err
		}
		changes = append(changes, Change{Name: name, Reason: "it did not exist"})
	}
	if err := s.checkValidity(ca); err != nil {
		return nil, changes, err
	}
	return ca, changes, s.writeSigningPair(ca)
}

// loadAuthority reads the authority's files. It also finishes a creation that was
// interrupted before its key was in place.
func (s *Store) loadAuthority(name string) (*authority, error) {
	trusted, err := readCerts(s.Cert(name))
	if err != nil {
		return nil, err
	}
	key, err := readKey(s.Key(name))
	if err != nil {
		return nil, err
	}
	if len(trusted) == 0 {
		if key != nil {
			return nil, fmt.Errorf("%s exists without %s: place both files of the authority, or take %s from a backup",
				s.Key(name), s.Cert(name), s.Cert(name))
		}
		return &authority{name: name}, nil
	}
	if key == nil {
		if key, err = s.adoptNextKey(name, trusted); err != nil {
			return nil, err
		}
	}
	ca := &authority{name: name, trusted: trusted, key: key}
	if key != nil {
		ca.cert = belongsTo(key, trusted)
	}
	first := trusted[0]
	if ca.cert != nil {
		first = ca.cert
	}
	switch {
	case !first.IsCA:
		return nil, fmt.Errorf("%s is not a CA certificate (basic constraints): place a CA", s.Cert(name))
	case key != nil && ca.cert == nil:
		return nil, fmt.Errorf("%s and %s do not belong together: place a matching pair", s.Cert(name), s.Key(name))
	}
	return ca, s.loadCross(ca)
}

func (s *Store) loadCross(ca *authority) error {
	list, err := readCerts(s.cross(ca.name))
	if err != nil {
		return err
	}
	if len(list) > 0 && ca.key != nil && publicEqual(list[0].PublicKey, ca.key.Public()) {
		ca.cross = list[0]
	}
	return nil
}

// adoptNextKey moves the key of an interrupted creation into place if its certificate
// exists.
func (s *Store) adoptNextKey(name string, trusted []*x509.Certificate) (crypto.Signer, error) {
	key, err := readKey(s.nextKey(name))
	if err != nil || key == nil || belongsTo(key, trusted) == nil {
		return nil, err
	}
	return key, datadir.Rename(s.nextKey(name), s.Key(name))
}

// belongsTo returns the certificate for the key that is valid longest, or nil.
func belongsTo(key crypto.Signer, list []*x509.Certificate) *x509.Certificate {
	var found *x509.Certificate
	for _, crt := range list {
		if publicEqual(crt.PublicKey, key.Public()) && (found == nil || crt.NotAfter.After(found.NotAfter)) {
			found = crt
		}
	}
	return found
}

// makeAuthority makes a key and a certificate. The key is written last.
func (s *Store) makeAuthority(name, commonName string) (*authority, error) {
	key, err := makeKey(s.nextKey(name))
	if err != nil {
		return nil, err
	}
	crt, err := s.selfSign(name, pkix.Name{CommonName: commonName}, key)
	if err != nil {
		return nil, err
	}
	if err := writeCerts(s.Cert(name), crt); err != nil {
		return nil, err
	}
	if err := datadir.Rename(s.nextKey(name), s.Key(name)); err != nil {
		return nil, err
	}
	return &authority{name: name, trusted: []*x509.Certificate{crt}, cert: crt, key: key}, nil
}

// selfSign makes the certificate of an authority.
func (s *Store) selfSign(name string, subject pkix.Name, key crypto.Signer) (*x509.Certificate, error) {
	template := s.authorityTemplate(subject)
	return sign(name, template, template, key.Public(), key)
}

func (s *Store) authorityTemplate(subject pkix.Name) *x509.Certificate {
	template := s.template(subject, authorityLife)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return template
}

// checkValidity returns an error with the remedy for an authority that has expired or is
// not valid yet, unless a rotation replaces it.
func (s *Store) checkValidity(ca *authority) error {
	now := s.now()
	valid := func(c *x509.Certificate) bool { return !now.Before(c.NotBefore) && now.Before(c.NotAfter) }
	crt := ca.cert
	if crt == nil && slices.ContainsFunc(ca.trusted, valid) || crt != nil && (valid(crt) || s.replacing) {
		return nil
	}
	if crt == nil {
		crt = ca.trusted[0]
	}
	state := "expired at " + crt.NotAfter.Format(time.RFC3339) + ": "
	if now.Before(crt.NotBefore) {
		state = fmt.Sprintf("is not valid before %s, and the clock has %s: correct the clock; or ",
			crt.NotBefore.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	remedy := "place a new authority and its key"
	if kind := kinds[ca.name]; kind != "" {
		remedy = fmt.Sprintf("place a new authority, or stop the server and have one made with \"kube-hyper-mini "+
			"certs rotate %s --overlap 0s\" (all clients then need new kubeconfigs)", kind)
	}
	return fmt.Errorf("%s %s%s", s.Cert(ca.name), state, remedy)
}

// writeSigningPair keeps [Store.SigningPair] of the clients' authority.
func (s *Store) writeSigningPair(ca *authority) error {
	if ca.name != ClientCA {
		return nil
	}
	path := s.SigningPair(ca.name)
	if ca.cert == nil {
		return datadir.RemoveFile(path)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ca.key)
	if err != nil {
		return fmt.Errorf("encode key %s: %w", path, err)
	}
	pair := append(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: ca.cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: keyutil.PrivateKeyBlockType, Bytes: der})...)
	return datadir.WriteChanged(path, pair, 0o600)
}

func (s *Store) template(subject pkix.Name, life time.Duration) *x509.Certificate {
	now := s.now()
	return &x509.Certificate{Subject: subject, NotBefore: now.Add(-backdate), NotAfter: now.Add(life)}
}

// sign makes a certificate from the template with a random serial number.
func sign(name string, template, parent *x509.Certificate, public crypto.PublicKey,
	signer crypto.Signer) (*x509.Certificate, error) {
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
	return crt, nil
}
