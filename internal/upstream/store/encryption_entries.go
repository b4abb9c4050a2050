package store

import "strings"

// Upstream fact: which entry of an EncryptionConfiguration is for a resource
//
// Mirrors: k8s.io/apiserver/pkg/server/options/encryptionconfig.transformerFromOverrides
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.StaticTransformers.TransformerForResource
//   k8s.io/apiserver/pkg/server/options/encryptionconfig.getTransformerOverridesAndKMSPluginHealthzCheckers
// Why: a rotation and the check of a file need the entry, and the function that finds it
//   is not exported.
// Gain: a file that does not encrypt what the configuration demands is refused, and a
//   rotation rewrites all objects.
// Breaks: objects are taken for encrypted with the keys of another entry, and keep a key
//   that the rotation removes. TestRotate compares with the transformers of Kubernetes.

// EncryptionEntries returns the names of the entries that a file may have for a resource,
// "name" or "name.group", in the order of their precedence.
func EncryptionEntries(resource string) []string {
	_, group, _ := strings.Cut(resource, ".")
	return []string{resource, "*." + group, "*.*"}
}
