package encryption

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Decrypter decrypts values of etcd with the local keys of several
// EncryptionConfigurations, as a journal has them. The zero Decrypter has no keys.
// Add must not be called concurrently with Decrypt.
type Decrypter struct {
	ring keyring // the newest keys of a prefix first
}

// Add adds the keys of an EncryptionConfiguration. Name is that of its file, for
// errors.
func (d *Decrypter) Add(name string, content []byte) error {
	c, err := parse(name, content)
	if err != nil {
		return err
	}
	ring, err := newKeyring(c)
	if err != nil {
		return err
	}
	for prefix, older := range d.ring {
		ring[prefix] = append(ring[prefix], older...)
	}
	d.ring = ring
	return nil
}

// Decrypt returns the plain text of a value that etcd stores under key. Plain text
// is returned as it is. The error names the missing key.
func (d *Decrypter) Decrypt(ctx context.Context, key string, stored []byte) ([]byte, error) {
	name := store.KeyPrefix(stored)
	if name == "" {
		return stored, nil
	}
	if strings.HasPrefix(name, store.KMSPrefix) {
		return nil, errors.New("it is encrypted by a KMS plugin, and only the server can decrypt it")
	}
	plain, err := d.ring.decrypt(ctx, key, stored)
	if errors.Is(err, errNoKey) {
		return nil, fmt.Errorf("it is encrypted with the %s, which the journal does not have", describe(name))
	}
	if err != nil {
		return nil, fmt.Errorf("decrypt with the %s: %w", describe(name), err)
	}
	return plain, nil
}
