package encryption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// checkedValues bounds how many values of a resource CheckReadable reads.
const checkedValues = 100

// ErrOtherKey is in the error of [CheckReadable] for objects that the keys in the file
// do not decrypt.
var ErrOtherKey = errors.New("encrypted with another key")

// CheckReadable returns an error with the remedy, [ErrOtherKey], if the objects in etcd below root are
// encrypted with other keys than those in the file: for each key of the first values of
// each resource, one value must be decrypted. Secrets are checked also if the file was lost.
// Values of KMS plugins are left out, since the plugin may be unavailable.
func CheckReadable(ctx context.Context, kv clientv3.KV, root, file string) error {
	c, err := read(file)
	if err != nil {
		return err
	}
	if c == nil {
		c = &configuration{}
	}
	ring, err := newKeyring(c)
	if err != nil {
		return err
	}
	resources := slices.Concat(c.resources())
	if !slices.Contains(resources, "secrets") {
		resources = append(resources, "secrets")
	}
	for _, resource := range resources {
		for _, prefix := range storedBelow(root, resource) {
			if err := checkBelow(ctx, kv, ring, file, resource, prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkBelow(ctx context.Context, kv clientv3.KV, ring keyring, file, resource, below string) error {
	answer, err := kv.Get(ctx, below, clientv3.WithPrefix(), clientv3.WithLimit(checkedValues))
	if err != nil {
		return fmt.Errorf("look for encrypted %s: %w", resource, err)
	}
	readable, unreadable := map[string]bool{}, map[string]string{} // by key; the first object that cannot be decrypted
	for _, stored := range answer.Kvs {
		key := store.KeyPrefix(stored.Value)
		if key == "" || readable[key] || strings.HasPrefix(key, store.KMSPrefix) {
			continue
		}
		_, err := ring.decrypt(ctx, string(stored.Key), stored.Value)
		switch {
		case errors.Is(err, errNoKey):
			return fmt.Errorf("%s in etcd are %w than those in %s, namely %s: put the right file there, from a "+
				"backup or from the server that wrote them", resource, ErrOtherKey, file, describe(key))
		case err == nil:
			readable[key] = true
		case unreadable[key] == "":
			unreadable[key] = string(stored.Key)
		}
	}
	for key, object := range unreadable {
		// One damaged object among readable ones does not mean a wrong key.
		if !readable[key] {
			return fmt.Errorf("%s in etcd are %w under the name that %s has in %s (%s cannot be decrypted): "+
				"put the former key back, from a backup, and give each key a name of its own; "+
				"`kube-hyper-mini encryption rotate` makes a new key", resource, ErrOtherKey, describe(key), file, object)
		}
	}
	return nil
}

// describe names a key for messages: secretbox key "one".
func describe(prefix string) string {
	provider, name := store.ProviderAndKey(prefix)
	return fmt.Sprintf("%s key %q", provider, name)
}
