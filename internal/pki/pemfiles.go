package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// Cert is the path of the certificate, or of an authority's bundle.
func (s *Store) Cert(name string) string { return filepath.Join(s.dir, name+".crt") }

// Key is the path of the private key.
func (s *Store) Key(name string) string { return filepath.Join(s.dir, name+".key") }

// SigningPair is the path of a file with the key of an authority and the one certificate
// that belongs to it, for the signer of client certificates. There is no file where the key is kept
// elsewhere. The store keeps that of ClientCA only.
func (s *Store) SigningPair(authority string) string { return s.Key(authority + "-signing") }

// nextKey is the path of a key that is not in use yet.
func (s *Store) nextKey(name string) string { return s.Key(name + "-next") }

// cross is the path of the authority's certificate that the previous authority
// has signed.
func (s *Store) cross(name string) string { return s.Cert(name + "-cross") }

// verifyKeys has public keys that verify tokens besides the signing one.
func (s *Store) verifyKeys() string { return filepath.Join(s.dir, ServiceAccount+".pub") }

// readCerts returns the certificates in the file, or nil without a file.
func readCerts(path string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	list, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PEM certificate: %w; replace it, or take it from a backup", path, err)
	}
	return list, nil
}

// readCert returns the first certificate of name, or nil without a file.
func (s *Store) readCert(name string) (*x509.Certificate, error) {
	list, err := readCerts(s.Cert(name))
	if len(list) == 0 {
		return nil, err
	}
	return list[0], err
}

func writeCerts(path string, list ...*x509.Certificate) error {
	encoded, err := cert.EncodeCertificates(list...)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return datadir.WriteFile(path, encoded, 0o644)
}

// readKey returns the private key in the file, or nil without a file.
func readKey(path string) (crypto.Signer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PEM private key: %w; replace it, or take it from a backup", path, err)
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, which cannot sign; place an EC or RSA key", path, parsed)
	}
	return signer, nil
}

// makeKey makes a P-256 key and writes it to the file.
func makeKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", path, err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode key %s: %w", path, err)
	}
	return key, datadir.WriteFile(path, encoded, 0o600)
}

// ReadPublicKeys returns the public keys in a PEM file: public keys, private keys
// (PKCS#1, SEC 1 and PKCS#8) and certificates, RSA and ECDSA. It skips other blocks. A
// file without a key is an error. It replaces
// k8s.io/client-go/util/keyutil.PublicKeysFromFile, which does not read ECDSA keys in
// PKCS#8.
func ReadPublicKeys(path string) ([]crypto.PublicKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read public keys: %w", err)
	}
	var keys []crypto.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch key := publicKey(block).(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey:
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no RSA or ECDSA key in PEM; place public keys (PUBLIC KEY), private "+
			"keys or certificates", path)
	}
	return keys, nil
}

// publicKey returns the public key in the block, or nil.
func publicKey(block *pem.Block) crypto.PublicKey {
	encoded := pem.EncodeToMemory(block)
	if private, err := keyutil.ParsePrivateKeyPEM(encoded); err == nil {
		if signer, ok := private.(crypto.Signer); ok {
			return signer.Public()
		}
	}
	if public, err := keyutil.ParsePublicKeysPEM(encoded); err == nil {
		return public[0]
	}
	return nil
}

// writePublicKeys writes the keys to the file; without keys it removes the file.
func writePublicKeys(path string, keys []crypto.PublicKey) error {
	if len(keys) == 0 {
		return datadir.RemoveFile(path)
	}
	var data []byte
	for _, key := range keys {
		der, err := x509.MarshalPKIXPublicKey(key)
		if err != nil {
			return fmt.Errorf("encode %s: %w", path, err)
		}
		data = append(data, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)
	}
	return datadir.WriteFile(path, data, 0o600)
}

// fingerprint is the SHA-256 of a public key in hex: of its DER form, as in
// upstream's key ids of tokens.
func fingerprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

func publicEqual(a, b crypto.PublicKey) bool {
	comparable, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && comparable.Equal(b)
}
