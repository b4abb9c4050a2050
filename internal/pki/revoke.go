package pki

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// revokedKeys lists the fingerprints of client keys that are refused, one a
// line; the rest of a line is a remark.
const revokedKeys = "revoked-keys"

// Revoked reports whether the key of a client's certificate has been revoked. It
// is cheap and may be called at each request.
func (s *Store) Revoked(certificate *x509.Certificate) bool {
	return s.isRevoked(certificate.PublicKey)
}

func (s *Store) isRevoked(key crypto.PublicKey) bool {
	revoked := s.known()
	if len(revoked) == 0 {
		return false
	}
	print, err := fingerprint(key)
	if err != nil {
		return true
	}
	_, found := revoked[print]
	return found
}

// loadRevoked reads the list. What was refused before is still refused, also after an error.
func (s *Store) loadRevoked() error {
	revoked, err := s.readRevoked()
	s.refuse(revoked)
	return err
}

// refuse adds revoked keys.
func (s *Store) refuse(keys map[string]string) {
	revoked := maps.Clone(s.known())
	maps.Copy(revoked, keys)
	s.revoked.Store(&revoked)
}

// known returns the revoked keys that were loaded last.
func (s *Store) known() map[string]string {
	if revoked := s.revoked.Load(); revoked != nil {
		return *revoked
	}
	return map[string]string{}
}

// readRevoked returns the remarks in the list by fingerprint.
func (s *Store) readRevoked() (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, revokedKeys))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the revoked keys: %w", err)
	}
	revoked := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if print, remark, _ := strings.Cut(strings.TrimSpace(line), " "); print != "" {
			revoked[strings.ToLower(print)] = strings.TrimSpace(remark)
		}
	}
	return revoked, nil
}

// writeRevoked adds the keys that are refused to the list, also those of an attempt that failed.
func (s *Store) writeRevoked() error {
	if err := s.loadRevoked(); err != nil {
		return err
	}
	revoked := s.known()
	var data []byte
	for _, print := range slices.Sorted(maps.Keys(revoked)) {
		data = fmt.Appendf(data, "%s %s\n", print, revoked[print])
	}
	return datadir.WriteFile(filepath.Join(s.dir, revokedKeys), data, 0o600)
}

// RevokeAdmin refuses the administrator's key, and so every certificate that was
// signed for it, and makes a new key and certificate. If the list cannot be written, the key
// is refused until the process ends, and the error says why.
func (s *Store) RevokeAdmin() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ca, err := s.loadAuthority(ClientCA)
	if err != nil {
		return nil, err
	}
	if ca.key == nil {
		return nil, fmt.Errorf("a new administrator's certificate cannot be signed: %s is not there; place it",
			s.Key(ClientCA))
	}
	key, err := readKey(s.Key(Admin))
	if err != nil {
		return nil, err
	}
	if key == nil {
		return nil, &MissingError{Files: []string{s.Key(Admin)}}
	}
	print, err := fingerprint(key.Public())
	if err != nil {
		return nil, err
	}
	s.refuse(map[string]string{print: "admin, revoked at " + s.now().UTC().Format("2006-01-02T15:04:05Z")})
	if err = s.writeRevoked(); err != nil {
		err = fmt.Errorf("the key is refused until this process ends, and not after that: run the command again: %w", err)
	}
	changes, ensureErr := s.ensure(false) // the revoked key is replaced
	return changes, errors.Join(err, ensureErr)
}
