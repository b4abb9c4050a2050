package encryption

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const keyBytes = 32

// configuration is the content of an EncryptionConfiguration file.
type configuration struct {
	apiserverv1.EncryptionConfiguration
	file string
	// generated means that the server wrote the file and that it was not edited. An
	// edited file belongs to the administrator.
	generated bool
}

// Ensure writes the EncryptionConfiguration to file: resources are encrypted;
// those that an earlier configuration encrypted and this one does not are
// written in plain text from now on and can still be read. Keys are kept. A file
// that was edited is left as it is; it must encrypt all of resources. Ensure
// returns false, and writes nothing, when no resource is or was to be encrypted.
func Ensure(file string, resources []string) (bool, error) {
	previous, err := read(file)
	if err != nil {
		return false, err
	}
	var keys []apiserverv1.Key
	var noLonger []string // encrypted
	switch {
	case previous == nil && len(resources) == 0:
		return false, nil
	case previous == nil:
		key, err := newKey()
		if err != nil {
			return false, err
		}
		keys = []apiserverv1.Key{key}
	case !previous.generated:
		return true, previous.checkCovers(resources)
	default:
		keys = previous.secretboxKeys()
		encrypted, plain := previous.resources()
		noLonger = slices.DeleteFunc(slices.Concat(encrypted, plain),
			func(resource string) bool { return slices.Contains(resources, resource) })
	}
	return true, generate(file, keys, resources, noLonger).write()
}

// read returns nil where there is no file.
func read(file string) (*configuration, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the encryption configuration: %w", err)
	}
	return parse(file, data)
}

func parse(file string, data []byte) (*configuration, error) {
	c := &configuration{file: file}
	if err := yaml.UnmarshalStrict(data, &c.EncryptionConfiguration); err != nil || c.Kind == "" {
		return nil, fmt.Errorf("%s is not an EncryptionConfiguration: %w; without its keys the encrypted objects in "+
			"etcd cannot be read: restore it from a backup", file, cmp.Or(err, errors.New("it has no kind")))
	}
	c.generated = c.isGenerated(data)
	return c, nil
}

// isGenerated reports whether generate makes the same bytes, with keys named by newKey.
func (c *configuration) isGenerated(data []byte) bool {
	keys := c.secretboxKeys()
	same, err := c.withKeys(keys).marshal()
	return err == nil && len(keys) > 0 && string(same) == string(data) &&
		!slices.ContainsFunc(keys, func(key apiserverv1.Key) bool {
			secret, err := base64.StdEncoding.DecodeString(key.Secret)
			return err != nil || key.Name != keyName(secret)
		})
}

// withKeys returns what the server writes for the same resources and these keys.
func (c *configuration) withKeys(keys []apiserverv1.Key) *configuration {
	encrypted, plain := c.resources()
	return generate(c.file, keys, encrypted, plain)
}

// resources lists the resources that are encrypted when they are written, and the others.
func (c *configuration) resources() (encrypted, plain []string) {
	for _, entry := range c.Resources {
		if writesPlain(entry) {
			plain = append(plain, entry.Resources...)
		} else {
			encrypted = append(encrypted, entry.Resources...)
		}
	}
	return encrypted, plain
}

// secretboxKeys returns the keys of the first secretbox provider.
func (c *configuration) secretboxKeys() []apiserverv1.Key {
	for _, entry := range c.Resources {
		for _, provider := range entry.Providers {
			if provider.Secretbox != nil {
				return provider.Secretbox.Keys
			}
		}
	}
	return nil
}

// checkCovers returns an error for the resources that c does not encrypt.
func (c *configuration) checkCovers(resources []string) error {
	var missing []string
	for _, resource := range resources {
		if entry := c.entryFor(resource); entry == nil || writesPlain(*entry) {
			missing = append(missing, resource)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s does not encrypt %s, as apiServer.encryption.resources demands; the file was edited, so "+
		"that the server does not change it: add the resources to the file, or restore it from a backup, or take "+
		"them out of apiServer.encryption.resources",
		c.file, strings.Join(missing, ", "))
}

// entryFor returns the entry that the server uses for the resource, "name" or
// "name.group".
func (c *configuration) entryFor(resource string) *apiserverv1.ResourceConfiguration {
	for _, name := range store.EncryptionEntries(resource) {
		for i, entry := range c.Resources {
			if slices.Contains(entry.Resources, name) {
				return &c.Resources[i]
			}
		}
	}
	return nil
}

// writesPlain reports whether the entry's first provider, which writes, is
// identity.
func writesPlain(entry apiserverv1.ResourceConfiguration) bool {
	return len(entry.Providers) == 0 || entry.Providers[0].Identity != nil
}

func (c *configuration) marshal() ([]byte, error) {
	data, err := yaml.Marshal(c.EncryptionConfiguration)
	if err != nil {
		return nil, fmt.Errorf("render the encryption configuration: %w", err)
	}
	return data, nil
}

// write replaces the file where its content differs.
func (c *configuration) write() error {
	data, err := c.marshal()
	if err != nil {
		return err
	}
	return datadir.WriteChanged(c.file, data, 0o600)
}

func newKey() (apiserverv1.Key, error) {
	secret := make([]byte, keyBytes)
	if _, err := rand.Read(secret); err != nil {
		return apiserverv1.Key{}, fmt.Errorf("make an encryption key: %w", err)
	}
	return apiserverv1.Key{Name: keyName(secret), Secret: base64.StdEncoding.EncodeToString(secret)}, nil
}

// KeyPrefix begins the names of the keys that servers make.
const KeyPrefix = "local-"

// keyName derives a key's name from the key. Each value in etcd begins with the
// name, so that different keys must have different names.
func keyName(secret []byte) string {
	sum := sha256.Sum256(secret)
	return KeyPrefix + hex.EncodeToString(sum[:4])
}

// generate returns what the server writes to file. The first key encrypts, all decrypt.
func generate(file string, keys []apiserverv1.Key, encrypted, plain []string) *configuration {
	secretbox := apiserverv1.ProviderConfiguration{Secretbox: &apiserverv1.SecretboxConfiguration{Keys: keys}}
	identity := apiserverv1.ProviderConfiguration{Identity: &apiserverv1.IdentityConfiguration{}}
	c := &configuration{file: file, generated: true}
	c.TypeMeta = metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"}
	// The first provider writes, all of them read.
	if len(encrypted) > 0 {
		c.Resources = append(c.Resources, apiserverv1.ResourceConfiguration{
			Resources: encrypted, Providers: []apiserverv1.ProviderConfiguration{secretbox, identity}})
	}
	if len(plain) > 0 {
		c.Resources = append(c.Resources, apiserverv1.ResourceConfiguration{
			Resources: plain, Providers: []apiserverv1.ProviderConfiguration{identity, secretbox}})
	}
	return c
}

// Encrypted lists the resources that the file encrypts, as "secrets" or
// "widgets.example.com", and nothing where there is no file.
func Encrypted(file string) ([]string, error) {
	c, err := read(file)
	if err != nil || c == nil {
		return nil, err
	}
	encrypted, _ := c.resources()
	return encrypted, nil
}
