package pki

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// revokedKeys lists the fingerprints of client keys that are refused, one a
// line; the rest of a line is a remark.
const revokedKeys = "revoked-keys"

// Revoked says whether the key of a client's certificate has been revoked. It
// is cheap and may be called at each request.
func (s *Store) Revoked(certificate *x509.Certificate) bool {
	return s.isRevoked(certificate.PublicKey)
}

func (s *Store) isRevoked(key crypto.PublicKey) bool {
	revoked := s.revoked.Load()
	if revoked == nil || len(*revoked) == 0 {
		return false
	}
	print, err := fingerprint(key)
	return err != nil || (*revoked)[print]
}

func (s *Store) loadRevoked() error {
	data, err := os.ReadFile(filepath.Join(s.dir, revokedKeys))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the revoked keys: %w", err)
	}
	revoked := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 0 {
			revoked[strings.ToLower(fields[0])] = true
		}
	}
	s.revoked.Store(&revoked)
	return nil
}

// RevokeAdmin refuses the administrator's key, and so every certificate that was
// signed for it, and makes a new key and certificate.
func (s *Store) RevokeAdmin() ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ca, err := s.loadAuthority(ClientCA)
	if err != nil {
		return nil, err
	}
	if ca.key == nil {
		return nil, fmt.Errorf("a new administrator's certificate cannot be signed: %s is not there; place it", s.Key(ClientCA))
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
	path := filepath.Join(s.dir, revokedKeys)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the revoked keys: %w", err)
	}
	data = fmt.Appendf(data, "%s admin, revoked at %s\n", print, s.now().UTC().Format("2006-01-02T15:04:05Z"))
	if err := datadir.WriteFile(path, data, 0o600); err != nil {
		return nil, err
	}
	return s.ensure(false) // a revoked key is replaced
}
