package pki

import (
	"crypto/x509"
	"errors"
	"os"
	"time"
)

// Entry describes a certificate or a token key of the store.
type Entry struct {
	// Name is that of the file, without .crt, .key or .pub.
	Name string `json:"name"`
	// Subject and Issuer are those of a certificate; empty for a key.
	Subject string `json:"subject,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	// Key is the SHA-256 of the public key in hex.
	Key string `json:"key"`
	// From and Until bound the validity of a certificate; zero for a key.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// UsedFor describes the use, for people.
	UsedFor string `json:"usedFor"`
	// TrustedUntil is when a rotation stops trusting it; zero for never.
	TrustedUntil time.Time `json:"trustedUntil,omitzero"`
	State        State     `json:"state"`
	// TrustedOnly is set for an authority whose key is missing or belongs to another
	// certificate: it signs nothing, and what it has signed is trusted.
	TrustedOnly bool `json:"-"`
}

// State is whether a certificate or a key can be used now.
type State string

// States of an [Entry].
const (
	Valid       State = "valid"
	NotValidYet State = "not valid yet"
	Expired     State = "expired"
	Revoked     State = "revoked"
)

// uses are the uses of the certificates; for an authority, those of the certificates that
// it signs.
var uses = map[string]string{
	ServerCA: "server certificates", ClientCA: "client certificates",
	FrontProxyCA: "certificates of the front proxy", EtcdCA: "certificates of etcd and its clients",
	APIServer: "serves the API", Admin: "admin.kubeconfig",
	Controller: "controllers that run alone", FrontProxy: "calls of aggregated API servers",
	EtcdServer: "serves etcd", EtcdClient: "clients of etcd",
}

// List describes the content of the directory: each authority, followed by the
// certificates that it has signed, then the token keys. It writes nothing.
func (s *Store) List() ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.loadRevoked(); err != nil {
		return nil, err
	}
	j, err := s.readJournal()
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, a := range s.authorities {
		entries, err := s.listAuthority(a.name, j)
		if err != nil {
			return nil, err
		}
		list = append(list, entries...)
	}
	tokens, err := s.listTokenKeys(j)
	return append(list, tokens...), err
}

func (s *Store) listAuthority(name string, j *journal) ([]Entry, error) {
	trusted, err := readCerts(s.Cert(name))
	if err != nil {
		return nil, err
	}
	key, err := readKey(s.Key(name))
	if err != nil && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	var list []Entry
	for _, crt := range trusted {
		entry := s.entry(name, crt)
		entry.UsedFor, entry.TrustedOnly = "trusted for "+uses[name], true
		if key != nil && publicEqual(key.Public(), crt.PublicKey) {
			entry.UsedFor, entry.TrustedOnly = "signs "+uses[name], false
		}
		entry.replaced(j.Rotations[name])
		list = append(list, entry)
	}
	for _, l := range s.leaves {
		if l.authority != name {
			continue
		}
		crt, err := s.readCert(l.name)
		if err != nil {
			return nil, err
		}
		if crt != nil {
			entry := s.entry(l.name, crt)
			entry.UsedFor = uses[l.name]
			list = append(list, entry)
		}
	}
	return list, nil
}

func (s *Store) entry(name string, crt *x509.Certificate) Entry {
	entry := Entry{
		Name: name, Subject: crt.Subject.String(), Issuer: crt.Issuer.String(),
		From: crt.NotBefore, Until: crt.NotAfter, State: Valid,
	}
	entry.Key, _ = fingerprint(crt.PublicKey) // a parsed certificate has a key that can be encoded
	switch now := s.now(); {
	case s.isRevoked(crt.PublicKey):
		entry.State = Revoked
	case now.Before(crt.NotBefore):
		entry.State = NotValidYet
	case now.After(crt.NotAfter):
		entry.State = Expired
	}
	return entry
}

// replaced adds the state of a rotation to the entry.
func (e *Entry) replaced(r *rotation) {
	if r != nil && r.Phase == signing && e.Key == r.From {
		e.TrustedUntil = r.Until
	}
}

func (s *Store) listTokenKeys(j *journal) ([]Entry, error) {
	keys, err := s.tokenKeys()
	if err != nil {
		var missing *MissingError
		if errors.As(err, &missing) {
			err = nil
		}
		return nil, err
	}
	var list []Entry
	for _, key := range keys.Verify {
		entry := Entry{Name: ServiceAccount, UsedFor: "verifies service account tokens", State: Valid}
		if publicEqual(key, keys.Signer.Public()) {
			entry.UsedFor = "signs service account tokens"
		}
		if entry.Key, err = fingerprint(key); err != nil {
			return nil, err
		}
		entry.replaced(j.Rotations[ServiceAccount])
		list = append(list, entry)
	}
	return list, nil
}
