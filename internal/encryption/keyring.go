package encryption

import (
	"bytes"
	"context"
	"crypto/aes"
	"encoding/base64"
	"errors"
	"fmt"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/storage/value"
	aestransformer "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	"k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// errNoKey means that a value is encrypted with a key that a keyring lacks.
var errNoKey = errors.New("no key of that name")

// keyring decrypts and encrypts with the keys in a file, by the prefix of
// values: provider, key name, colon. The same prefix may stand for several keys.
// KMS plugins are not part of it.
type keyring map[string][]value.Transformer

// newKeyring returns all keys of c.
func newKeyring(c *configuration) (keyring, error) {
	ring := keyring{}
	for _, entry := range c.Resources {
		for _, provider := range entry.Providers {
			prefix, keys := localKeys(provider)
			for _, key := range keys {
				transformer, err := newTransformer(prefix, key)
				if err != nil {
					return nil, fmt.Errorf("%s: key %q: %w", c.file, key.Name, err)
				}
				name := prefix + key.Name + ":"
				ring[name] = append(ring[name], transformer)
			}
		}
	}
	return ring, nil
}

// localKeys returns the local keys of a provider, none for identity and KMS, and the prefix of
// what it encrypts.
func localKeys(provider apiserverv1.ProviderConfiguration) (prefix string, keys []apiserverv1.Key) {
	switch {
	case provider.Secretbox != nil:
		return store.SecretboxPrefix, provider.Secretbox.Keys
	case provider.AESGCM != nil:
		return store.AESGCMPrefix, provider.AESGCM.Keys
	case provider.AESCBC != nil:
		return store.AESCBCPrefix, provider.AESCBC.Keys
	}
	return "", nil
}

func newTransformer(prefix string, key apiserverv1.Key) (value.Transformer, error) {
	secret, err := base64.StdEncoding.DecodeString(key.Secret)
	if err != nil {
		return nil, fmt.Errorf("its secret is not base64: %w", err)
	}
	if prefix == store.SecretboxPrefix {
		if len(secret) != keyBytes {
			return nil, fmt.Errorf("its secret has %d bytes, secretbox needs %d", len(secret), keyBytes)
		}
		return secretbox.NewSecretboxTransformer([keyBytes]byte(secret)), nil
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	if prefix == store.AESGCMPrefix {
		return aestransformer.NewGCMTransformer(block)
	}
	return aestransformer.NewCBCTransformer(block), nil
}

// prefixOf returns the prefix of the key that encrypted a value, or empty for
// plain text and for keys that the ring lacks.
func (r keyring) prefixOf(stored []byte) string {
	for prefix := range r {
		if bytes.HasPrefix(stored, []byte(prefix)) {
			return prefix
		}
	}
	return ""
}

// decrypt returns the plain text of a value that etcd has under key. The error
// is errNoKey when the ring lacks the value's key.
func (r keyring) decrypt(ctx context.Context, key string, stored []byte) ([]byte, error) {
	if !store.IsEncrypted(stored) {
		return stored, nil
	}
	prefix := r.prefixOf(stored)
	if prefix == "" {
		return nil, errNoKey
	}
	var errs []error
	for _, transformer := range r[prefix] {
		plain, _, err := transformer.TransformFromStorage(ctx, stored[len(prefix):], store.ValueContext(key))
		if err == nil {
			return plain, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// encrypt returns what etcd stores under key, with the prefix's first key.
func (r keyring) encrypt(ctx context.Context, prefix, key string, plain []byte) ([]byte, error) {
	encrypted, err := r[prefix][0].TransformToStorage(ctx, plain, store.ValueContext(key))
	if err != nil {
		return nil, err
	}
	return append([]byte(prefix), encrypted...), nil
}
