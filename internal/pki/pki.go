package pki

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// The names of the files, without .crt and .key.
const (
	ServerCA     = "server-ca"
	ClientCA     = "client-ca"
	FrontProxyCA = "front-proxy-ca"
	// EtcdCA is for etcd and its clients only: a holder of one of its
	// certificates may read and write everything.
	EtcdCA = "etcd-ca"

	APIServer  = "apiserver"
	Admin      = "admin"
	Controller = "controller-manager"
	FrontProxy = "front-proxy-client"
	EtcdServer = "etcd-server"
	EtcdClient = "etcd-client"

	// ServiceAccount has keys only: they sign tokens, not certificates.
	ServiceAccount = "service-account"
)

// Names are the names and addresses in the serving certificate.
type Names struct {
	DNS []string
	IPs []net.IP
}

// Change is a certificate that was created or signed again, and why.
type Change struct {
	Name, Reason string
}

// MissingError lists the authorities and keys that a used data directory lacks.
type MissingError struct {
	Files []string
}

// Error implements error.
func (e *MissingError) Error() string { return "missing: " + strings.Join(e.Files, ", ") }

// leaf describes a certificate that the store keeps.
type leaf struct {
	name, authority string
	subject         pkix.Name
	usage           x509.ExtKeyUsage
	names           Names
}

// Store keeps one directory of certificates and keys. Its methods may be called
// from several goroutines, except AddEtcd and ServeElsewhere.
type Store struct {
	dir         string
	now         func() time.Time
	authorities []namedAuthority
	leaves      []leaf
	serverCA    string // instead of the authority's own file

	mu sync.Mutex // held while files are written
	// replacing accepts authorities that have expired: rotations replace them, one
	// after the other.
	replacing bool
	changed   chan struct{}
	// revoked has the remarks of revoked client keys by fingerprint. None is removed.
	revoked atomic.Pointer[map[string]string]
}

// namedAuthority is an authority's file name and the common name of the
// certificates that are made for it.
type namedAuthority struct{ name, commonName string }

// New returns the store in dir for a server with these names. It reads and writes
// nothing.
func New(dir string, names Names) *Store {
	return &Store{
		dir: dir, now: time.Now, changed: make(chan struct{}),
		authorities: []namedAuthority{
			{ServerCA, "kube-hyper-mini-server-ca"}, {ClientCA, "kube-hyper-mini-client-ca"}, {FrontProxyCA,
				"kube-hyper-mini-front-proxy-ca"},
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
	return leaf{name, authority, pkix.Name{CommonName: commonName, Organization: groups}, x509.ExtKeyUsageClientAuth,
		Names{}}
}

// AddEtcd adds the certificates of an etcd that listens: an authority, a server
// certificate for names and a client certificate. Call it before other methods.
func (s *Store) AddEtcd(names Names) {
	s.authorities = append(s.authorities, namedAuthority{EtcdCA, "kube-hyper-mini-etcd-ca"})
	s.leaves = append(s.leaves,
		leaf{EtcdServer, EtcdCA, pkix.Name{CommonName: "etcd"}, x509.ExtKeyUsageServerAuth, names},
		client(EtcdClient, EtcdCA, "kube-hyper-mini"))
}

// ServeElsewhere removes the serving certificate from the store, for a server that
// uses serving.certFile. Clients verify that certificate with caFile, or with the store's
// authority if caFile is empty. Call it before other methods.
func (s *Store) ServeElsewhere(caFile string) {
	s.leaves = slices.DeleteFunc(s.leaves, func(l leaf) bool { return l.name == APIServer })
	s.serverCA = caFile
}

// ServerCA is the path of the authorities that clients verify the server with.
func (s *Store) ServerCA() string { return cmp.Or(s.serverCA, s.Cert(ServerCA)) }

// Create creates missing files, authorities and token keys included, and then does what
// Ensure does.
func (s *Store) Create() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ensure(true)
}

// Ensure signs certificates again that are due: a third of the lifetime or less is
// left, it is not valid yet, its authority was replaced, or it lacks a name. It
// continues rotations and ends those whose overlap is over. It returns the changes.
// Without the authorities or the token key it returns a [MissingError] and writes
// nothing.
func (s *Store) Ensure() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ensure(false)
}

func (s *Store) ensure(create bool) ([]Change, error) {
	if !create {
		if err := s.checkPresence(); err != nil {
			return nil, err
		}
	}
	if err := s.loadRevoked(); err != nil {
		return nil, err
	}
	journal, err := s.readJournal()
	if err != nil {
		return nil, err
	}
	changes, err := s.work(journal, create)
	if err != nil || slices.ContainsFunc(changes, func(c Change) bool { return kinds[c.Name] != "" }) {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return changes, err
}

// work continues rotations, creates and signs what is missing or due, and ends
// overlaps.
func (s *Store) work(journal *journal, create bool) ([]Change, error) {
	changes, err := s.advanceAll(journal)
	if err != nil {
		return changes, err
	}
	made, err := s.ensureFiles(create)
	changes = append(changes, made...)
	if err != nil {
		return changes, err
	}
	ended, err := s.endOverlaps(journal)
	changes = append(changes, ended...)
	if err != nil || len(ended) == 0 {
		return changes, err
	}
	made, err = s.ensureFiles(false) // without the old authority's signatures
	return append(changes, made...), err
}

// Changed returns a channel that is closed at the next change of an authority or
// of the token keys, and when a change has failed.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// CheckPresence returns a [MissingError] for the authorities and token keys that
// [Store.Create] would make.
func (s *Store) CheckPresence() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkPresence()
}

// checkPresence returns a [MissingError] for the authorities and keys that a used
// directory lacks. The authority of etcd may be added later, when `etcd` runs on
// the directory of a server.
func (s *Store) checkPresence() error {
	var missing []string
	look := func(path string) error {
		found, err := datadir.Exists(path)
		if err == nil && !found {
			missing = append(missing, path)
		}
		return err
	}
	for _, a := range s.authorities {
		if a.name == EtcdCA {
			if used, err := datadir.Exists(s.Cert(EtcdServer)); err != nil {
				return err
			} else if !used {
				continue
			}
		}
		if err := look(s.Cert(a.name)); err != nil {
			return err
		}
	}
	if err := look(s.Key(ServiceAccount)); err != nil {
		return err
	}
	if len(missing) > 0 {
		return &MissingError{Files: missing}
	}
	return nil
}

// ensureFiles makes and signs, authorities first.
func (s *Store) ensureFiles(create bool) ([]Change, error) {
	authorities := map[string]*authority{}
	var changes []Change
	for _, a := range s.authorities {
		ca, made, err := s.ensureAuthority(a.name, a.commonName, create || a.name == EtcdCA)
		changes = append(changes, made...)
		if err != nil {
			return changes, err
		}
		authorities[a.name] = ca
	}
	if err := s.ensureTokenKey(create); err != nil {
		return changes, err
	}
	for _, l := range s.leaves {
		change, err := s.ensureLeaf(l, authorities[l.authority])
		if err != nil {
			return changes, err
		}
		if change.Reason != "" {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

// ensureLeaf signs the certificate if it is due; otherwise the change has no reason.
func (s *Store) ensureLeaf(l leaf, ca *authority) (change Change, err error) {
	chain, err := readCerts(s.Cert(l.name))
	if err != nil {
		return change, err
	}
	key, err := readKey(s.Key(l.name))
	if err != nil {
		return change, err
	}
	reason := ""
	if len(chain) > 0 && key == nil {
		return change, fmt.Errorf("%s exists without %s: place both files, or remove the certificate to have a new "+
			"pair made", s.Cert(l.name), s.Key(l.name))
	}
	switch {
	case key == nil:
		reason = "it does not exist"
	case s.isRevoked(key.Public()) && ca.key != nil:
		key, reason = nil, "its key was revoked"
	default:
		reason = s.due(l, chain, key.Public(), ca)
	}
	if reason == "" {
		return change, nil
	}
	if ca.key == nil {
		if len(chain) > 0 && s.now().Before(chain[0].NotBefore) {
			return change, fmt.Errorf("%s is not valid before %s, and the clock has %s: correct the clock, or place "+
				"a certificate that is valid",
				s.Cert(l.name), chain[0].NotBefore.Format(time.RFC3339), s.now().Format(time.RFC3339))
		}
		if len(chain) > 0 && s.now().Before(chain[0].NotAfter) {
			return change, nil // placed by an administrator, who renews it
		}
		return change, fmt.Errorf("certificate %s must be signed (%s) but %s is not there: place it, or place %s and "+
			"%s yourself", l.name, reason, s.Key(ca.name), s.Cert(l.name), s.Key(l.name))
	}
	if key == nil {
		if key, err = makeKey(s.Key(l.name)); err != nil {
			return change, err
		}
	}
	return Change{l.name, reason}, s.issue(l, key.Public(), ca)
}

// issue signs the certificate and writes it with the other certificates that its peers
// need.
func (s *Store) issue(l leaf, public any, ca *authority) error {
	template := s.template(l.subject, leafLife)
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{l.usage}
	template.DNSNames, template.IPAddresses = l.names.DNS, l.names.IPs
	crt, err := sign(l.name, template, ca.cert, public, ca.key)
	if err != nil {
		return err
	}
	chain := []*x509.Certificate{crt}
	if ca.cross != nil {
		chain = append(chain, ca.cross)
	}
	return writeCerts(s.Cert(l.name), chain...)
}

// due returns why the certificate must be signed again, or empty.
func (s *Store) due(l leaf, chain []*x509.Certificate, public any, ca *authority) string {
	if len(chain) == 0 {
		return "it does not exist"
	}
	crt := chain[0]
	switch {
	case !publicEqual(crt.PublicKey, public):
		return "it does not belong to its key"
	case !signedBy(crt, ca):
		return "another authority signed it"
	case crt.Subject.CommonName != l.subject.CommonName:
		return "it names another subject"
	case s.now().Before(crt.NotBefore):
		return "it was not valid before " + crt.NotBefore.Format(time.RFC3339)
	case !s.now().Before(renewAt(crt)):
		return "it ends at " + crt.NotAfter.Format(time.RFC3339)
	}
	if reason := chainDue(chain, ca); reason != "" {
		return reason
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

// signedBy reports whether the authority has signed the certificate: with its key or,
// without a key, with any certificate that it trusts.
func signedBy(crt *x509.Certificate, ca *authority) bool {
	if ca.cert != nil {
		return crt.CheckSignatureFrom(ca.cert) == nil
	}
	return slices.ContainsFunc(ca.trusted, func(by *x509.Certificate) bool { return crt.CheckSignatureFrom(by) == nil })
}

// chainDue compares the certificates after the first with those that the rotation
// requires.
func chainDue(chain []*x509.Certificate, ca *authority) string {
	switch {
	case ca.key == nil:
		return ""
	case ca.cross != nil && !slices.ContainsFunc(chain[1:], ca.cross.Equal):
		return "the authority is being replaced"
	case ca.cross == nil && slices.ContainsFunc(chain[1:],
		func(c *x509.Certificate) bool { return publicEqual(c.PublicKey, ca.key.Public()) }):
		return "the authority was replaced"
	}
	return ""
}

// renewAt is the time at which a third of the certificate's lifetime is left.
func renewAt(crt *x509.Certificate) time.Time {
	return crt.NotAfter.Add(-crt.NotAfter.Sub(crt.NotBefore) / 3)
}
