package encryption

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

const keyBytes = 32

// Ensure writes the EncryptionConfiguration to file: the resources are
// encrypted; those that an earlier configuration encrypted and this one does
// not are written in plain text from now on and can still be read. A key is
// made once and kept. It returns false, and writes nothing, when no resource
// is or was to be encrypted.
func Ensure(file string, resources []string) (bool, error) {
	previous, err := read(file)
	if err != nil {
		return false, err
	}
	if previous == nil && len(resources) == 0 {
		return false, nil
	}
	key, err := keyOf(file, previous)
	if err != nil {
		return false, err
	}
	wanted := configuration(key, resources, formerly(previous, resources))
	data, err := yaml.Marshal(wanted)
	if err != nil {
		return false, fmt.Errorf("render the encryption configuration: %w", err)
	}
	if old, err := os.ReadFile(file); err == nil && string(old) == string(data) {
		return true, nil
	}
	return true, datadir.WriteFile(file, data, 0o600)
}

func read(file string) (*apiserverv1.EncryptionConfiguration, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the encryption configuration: %w", err)
	}
	previous := &apiserverv1.EncryptionConfiguration{}
	if err := yaml.UnmarshalStrict(data, previous); err != nil {
		return nil, fmt.Errorf("%s is not an EncryptionConfiguration: %w; without its key the encrypted objects in etcd cannot be read: restore it from a backup", file, err)
	}
	return previous, nil
}

// keyOf returns the key in use, or a new one where there is none.
func keyOf(file string, previous *apiserverv1.EncryptionConfiguration) (apiserverv1.Key, error) {
	if previous != nil {
		for _, resource := range previous.Resources {
			for _, provider := range resource.Providers {
				if provider.Secretbox != nil && len(provider.Secretbox.Keys) > 0 {
					return provider.Secretbox.Keys[0], nil
				}
			}
		}
		return apiserverv1.Key{}, fmt.Errorf("%s holds no secretbox key: restore it from a backup", file)
	}
	secret := make([]byte, keyBytes)
	if _, err := rand.Read(secret); err != nil {
		return apiserverv1.Key{}, fmt.Errorf("make an encryption key: %w", err)
	}
	// Each value in etcd begins with the name of its key, so that a name of its
	// own tells whether the key is the one that is needed (see CanRead).
	sum := sha256.Sum256(secret)
	return apiserverv1.Key{Name: "local-" + hex.EncodeToString(sum[:4]), Secret: base64.StdEncoding.EncodeToString(secret)}, nil
}

// secretboxPrefix begins every value that secretbox has encrypted; the name of
// the key and a colon follow (k8s.io/apiserver/pkg/server/options/encryptionconfig).
const secretboxPrefix = "k8s:enc:secretbox:v1:"

// CanRead says whether a value from etcd is in plain text or encrypted with the
// key in the file.
func CanRead(file string, value []byte) (bool, error) {
	encrypted, found := bytes.CutPrefix(value, []byte(secretboxPrefix))
	if !found {
		return true, nil
	}
	current, err := read(file)
	if err != nil || current == nil {
		return false, err
	}
	key, err := keyOf(file, current)
	if err != nil {
		return false, err
	}
	return bytes.HasPrefix(encrypted, []byte(key.Name+":")), nil
}

// formerly lists what was encrypted once and is not wanted any more.
func formerly(previous *apiserverv1.EncryptionConfiguration, resources []string) []string {
	var list []string
	if previous == nil {
		return nil
	}
	for _, entry := range previous.Resources {
		for _, resource := range entry.Resources {
			if !slices.Contains(resources, resource) {
				list = append(list, resource)
			}
		}
	}
	return list
}

func configuration(key apiserverv1.Key, encrypted, plain []string) *apiserverv1.EncryptionConfiguration {
	secretbox := apiserverv1.ProviderConfiguration{Secretbox: &apiserverv1.SecretboxConfiguration{Keys: []apiserverv1.Key{key}}}
	identity := apiserverv1.ProviderConfiguration{Identity: &apiserverv1.IdentityConfiguration{}}
	c := &apiserverv1.EncryptionConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
	}
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
