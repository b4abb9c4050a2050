package store

import (
	"bytes"
	"strings"

	"k8s.io/apiserver/pkg/storage/value"
)

// Upstream fact: how values are encrypted
//
// Mirrors: k8s.io/apiserver/pkg/server/options/encryptionconfig.aesCBCTransformerPrefixV1
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.aesGCMTransformerPrefixV1
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.secretboxTransformerPrefixV1
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.kmsTransformerPrefixV2
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.aesPrefixTransformer
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.secretboxPrefixTransformer
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.prefixTransformersAndProbes
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.transformerFromOverrides
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.StaticTransformers.TransformerForResource
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.getTransformerOverridesAndKMSPluginHealthzCheckers
//   k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString
//   k8s.io/apiserver/pkg/storage/etcd3.authenticatedDataString.AuthenticatedData
//   k8s.io/apiserver/pkg/storage/etcd3.store.Get
// Why: a rotation finds the key of each stored value by its prefix, and its entry in the
//   file by the resource; the manifest of a backup has the number of encrypted objects,
//   which are counted without keys. A value is decrypted only together with the key of etcd
//   that it was encrypted for. None of this is exported.
// Gain: keys are rotated without a restart, a start with the wrong keys is refused, a user
//   sees that a backup needs the encryption keys, and `history` reads encrypted values.
// Breaks: a rotation does not rewrite values of a new form, or those of another entry, and
//   removes their key. TestRotate compares with the transformers of Kubernetes.

// EncryptedPrefix begins the values that are encrypted, with any provider.
const EncryptedPrefix = "k8s:enc:"

// The prefixes of values of one provider. The name of the key and a colon follow.
const (
	// AESCBCPrefix is for the provider aescbc.
	AESCBCPrefix = "k8s:enc:aescbc:v1:"
	// AESGCMPrefix is for the provider aesgcm.
	AESGCMPrefix = "k8s:enc:aesgcm:v1:"
	// SecretboxPrefix is for the provider secretbox.
	SecretboxPrefix = "k8s:enc:secretbox:v1:"
	// KMSPrefix is for the provider kms, in any version.
	KMSPrefix = "k8s:enc:kms:"
)

// colons is the number of colons up to the end of the name of a key.
const colons = 5

// IsEncrypted reports whether a stored value is encrypted.
func IsEncrypted(stored []byte) bool { return bytes.HasPrefix(stored, []byte(EncryptedPrefix)) }

// KeyPrefix returns the beginning of an encrypted value up to the name of its key and the
// colon, k8s:enc:PROVIDER:VERSION:NAME:, whether the key is known or not. It is empty for
// plain text.
func KeyPrefix(stored []byte) string {
	if !IsEncrypted(stored) {
		return ""
	}
	end := 0
	for range colons {
		next := bytes.IndexByte(stored[end:], ':')
		if next < 0 {
			return ""
		}
		end += next + 1
	}
	return string(stored[:end])
}

// ProviderAndKey returns the provider and the name of the key of a prefix that [KeyPrefix]
// has returned; both are empty for other texts.
func ProviderAndKey(keyPrefix string) (provider, key string) {
	parts := strings.Split(keyPrefix, ":")
	if !IsEncrypted([]byte(keyPrefix)) || len(parts) <= colons {
		return "", ""
	}
	return parts[2], parts[4]
}

// EncryptionEntries returns the names of the entries that a file may have for a resource,
// "name" or "name.group", in the order of their precedence.
func EncryptionEntries(resource string) []string {
	_, group, _ := strings.Cut(resource, ".")
	return []string{resource, "*." + group, "*.*"}
}

// ValueContext returns what the transformers of Kubernetes need to decrypt or encrypt the
// value that etcd has under key.
func ValueContext(key string) value.Context { return value.DefaultContext(key) }
