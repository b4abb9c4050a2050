package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"fmt"
	"slices"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TokenKeys sign and verify service account tokens.
type TokenKeys struct {
	// Signer is an RSA or ECDSA key.
	Signer crypto.Signer
	// Verify has the signer's public key and the others that are trusted.
	Verify []crypto.PublicKey
}

// TokenKeys reads the keys of service account tokens.
func (s *Store) TokenKeys() (TokenKeys, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokenKeys()
}

func (s *Store) tokenKeys() (TokenKeys, error) {
	signer, err := readKey(s.Key(ServiceAccount))
	if err != nil {
		return TokenKeys{}, err
	}
	switch signer.(type) {
	case *rsa.PrivateKey, *ecdsa.PrivateKey:
	case nil:
		return TokenKeys{}, &MissingError{Files: []string{s.Key(ServiceAccount)}}
	default:
		return TokenKeys{}, fmt.Errorf("%s holds a %T: tokens are signed with RSA and ECDSA keys only; place one",
			s.Key(ServiceAccount), signer)
	}
	keys := TokenKeys{Signer: signer, Verify: []crypto.PublicKey{signer.Public()}}
	files := []string{s.Key(ServiceAccount)} // it may hold further keys, as upstream's does
	if found, err := datadir.Exists(s.verifyKeys()); err != nil {
		return TokenKeys{}, err
	} else if found {
		files = append(files, s.verifyKeys())
	}
	for _, file := range files {
		more, err := ReadPublicKeys(file)
		if err != nil {
			return TokenKeys{}, err
		}
		for _, key := range more {
			keys.Verify = addPublicKey(keys.Verify, key)
		}
	}
	return keys, nil
}

func addPublicKey(list []crypto.PublicKey, key crypto.PublicKey) []crypto.PublicKey {
	if slices.ContainsFunc(list, func(k crypto.PublicKey) bool { return publicEqual(k, key) }) {
		return list
	}
	return append(list, key)
}

// ensureTokenKey checks the keys. If there is none and create is set, it makes one.
func (s *Store) ensureTokenKey(create bool) error {
	found, err := datadir.Exists(s.Key(ServiceAccount))
	if err != nil {
		return err
	}
	if !found && create {
		if _, err := makeKey(s.Key(ServiceAccount)); err != nil {
			return err
		}
	}
	_, err = s.tokenKeys()
	return err
}

// trustTokenKey has the key of a rotation verify tokens.
func (s *Store) trustTokenKey(next crypto.PublicKey) error {
	keys, err := s.tokenKeys()
	if err != nil {
		return err
	}
	return writePublicKeys(s.verifyKeys(), addPublicKey(keys.Verify, next))
}

// distrustTokenKey drops the key with the fingerprint.
func (s *Store) distrustTokenKey(old string) error {
	keys, err := s.tokenKeys()
	if err != nil {
		return err
	}
	return writePublicKeys(s.verifyKeys(), slices.DeleteFunc(keys.Verify, func(key crypto.PublicKey) bool {
		return hasFingerprint(key, old) || publicEqual(key, keys.Signer.Public())
	}))
}

// useNextKey puts the key of a rotation into place.
func (s *Store) useNextKey(name string) error {
	found, err := datadir.Exists(s.nextKey(name))
	if err != nil || !found {
		return err
	}
	return datadir.Rename(s.nextKey(name), s.Key(name))
}
