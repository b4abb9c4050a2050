package pki

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"time"
)

// The names of the files, without .crt and .key.
const (
	ServerCA     = "server-ca"
	ClientCA     = "client-ca"
	FrontProxyCA = "front-proxy-ca"
	// EtcdCA is for etcd and its clients only: whoever has a certificate of
	// its may read and write everything.
	EtcdCA = "etcd-ca"

	APIServer  = "apiserver"
	Admin      = "admin"
	Controller = "controller-manager"
	FrontProxy = "front-proxy-client"
	EtcdServer = "etcd-server"
	EtcdClient = "etcd-client"

	// ServiceAccount has a key only: it signs tokens, not certificates.
	ServiceAccount = "service-account"
)

// Names are what the serving certificate must be valid for.
type Names struct {
	DNS []string
	IPs []net.IP
}

// leaf describes a certificate that the store keeps.
type leaf struct {
	name, authority string
	subject         pkix.Name
	usage           x509.ExtKeyUsage
	names           Names
}

// Store keeps one directory of certificates and keys. Its methods may be
// called from several goroutines only where they say so.
type Store struct {
	dir         string
	now         func() time.Time
	authorities map[string]string // file name to common name
	leaves      []leaf
}

// New returns the store in dir for a server that answers to names. It reads
// and writes nothing.
func New(dir string, names Names) *Store {
	return &Store{
		dir: dir, now: time.Now,
		authorities: map[string]string{
			ServerCA: "kube-hyper-mini-server-ca", ClientCA: "kube-hyper-mini-client-ca", FrontProxyCA: "kube-hyper-mini-front-proxy-ca",
		},
		leaves: []leaf{
			{APIServer, ServerCA, pkix.Name{CommonName: "kube-hyper-mini"}, x509.ExtKeyUsageServerAuth, names},
			client(Admin, ClientCA, "admin", "system:masters"),
			client(Controller, ClientCA, "system:kube-controller-manager"),
			client(FrontProxy, FrontProxyCA, "front-proxy-client"),
		},
	}
}

func client(name, authority, commonName string, groups ...string) leaf {
	return leaf{name, authority, pkix.Name{CommonName: commonName, Organization: groups}, x509.ExtKeyUsageClientAuth, Names{}}
}

// AddEtcd has the store keep what an etcd that listens needs, and its clients:
// an authority of its own, a server certificate for names and a client
// certificate. Call it before anything else.
func (s *Store) AddEtcd(names Names) {
	s.authorities[EtcdCA] = "kube-hyper-mini-etcd-ca"
	s.leaves = append(s.leaves,
		leaf{EtcdServer, EtcdCA, pkix.Name{CommonName: "etcd"}, x509.ExtKeyUsageServerAuth, names},
		client(EtcdClient, EtcdCA, "kube-hyper-mini"))
}

// Cert is the path of the certificate.
func (s *Store) Cert(name string) string { return filepath.Join(s.dir, name+".crt") }

// Key is the path of the private key.
func (s *Store) Key(name string) string { return filepath.Join(s.dir, name+".key") }

// Ensure makes what is missing and signs again what is due: a certificate of
// which a third of its life or less is left, whose authority was replaced, or
// which lacks a name. It returns the names of the certificates it wrote.
func (s *Store) Ensure() ([]string, error) {
	authorities := map[string]*authority{}
	for name, commonName := range s.authorities {
		ca, err := s.ensureAuthority(name, commonName)
		if err != nil {
			return nil, err
		}
		authorities[name] = ca
	}
	key, err := s.readKey(ServiceAccount)
	if err == nil && key == nil {
		_, err = s.makeKey(ServiceAccount)
	}
	if err != nil {
		return nil, err
	}
	var written []string
	for _, l := range s.leaves {
		renewed, err := s.ensureLeaf(l, authorities[l.authority])
		if err != nil {
			return written, err
		}
		if renewed {
			written = append(written, l.name)
		}
	}
	return written, nil
}

func (s *Store) ensureLeaf(l leaf, ca *authority) (bool, error) {
	crt, err := s.readCert(l.name)
	if err != nil {
		return false, err
	}
	key, err := s.readKey(l.name)
	if err != nil {
		return false, err
	}
	if crt != nil && key == nil {
		return false, fmt.Errorf("%s exists without %s: place both files, or remove the certificate to have a new pair made", s.Cert(l.name), s.Key(l.name))
	}
	reason := s.due(l, crt, key, ca)
	if reason == "" {
		return false, nil
	}
	if ca.key == nil {
		if crt != nil && s.now().Before(crt.NotAfter) {
			return false, nil // placed by an administrator, who renews it
		}
		return false, fmt.Errorf("certificate %s must be signed (%s) but %s is not there: place it, or place %s and %s yourself",
			l.name, reason, s.Key(ca.name), s.Cert(l.name), s.Key(l.name))
	}
	if key == nil {
		if key, err = s.makeKey(l.name); err != nil {
			return false, err
		}
	}
	return true, s.issue(l, key.Public(), ca)
}

func (s *Store) issue(l leaf, public crypto.PublicKey, ca *authority) error {
	template := s.template(l.subject, leafLife)
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{l.usage}
	template.DNSNames, template.IPAddresses = l.names.DNS, l.names.IPs
	_, err := s.sign(l.name, template, ca.cert, public, ca.key)
	return err
}

// due says why the certificate must be signed again, or nothing.
func (s *Store) due(l leaf, crt *x509.Certificate, key crypto.Signer, ca *authority) string {
	switch {
	case crt == nil:
		return "it does not exist"
	case !publicEqual(crt.PublicKey, key.Public()):
		return "it does not belong to its key"
	case crt.CheckSignatureFrom(ca.cert) != nil:
		return "another authority signed it"
	case crt.Subject.CommonName != l.subject.CommonName:
		return "it names somebody else"
	case !s.now().Before(renewAt(crt)):
		return "it ends at " + crt.NotAfter.Format(time.RFC3339)
	}
	for _, dns := range l.names.DNS {
		if !slices.Contains(crt.DNSNames, dns) {
			return "it lacks the name " + dns
		}
	}
	for _, ip := range l.names.IPs {
		if !slices.ContainsFunc(crt.IPAddresses, ip.Equal) {
			return "it lacks the address " + ip.String()
		}
	}
	return ""
}

// renewAt is when a third of the certificate's life is left.
func renewAt(crt *x509.Certificate) time.Time {
	return crt.NotAfter.Add(-crt.NotAfter.Sub(crt.NotBefore) / 3)
}
