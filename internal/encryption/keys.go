package encryption

import (
	"slices"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
)

// isLocal reports whether the provider has its keys in the file.
func isLocal(provider apiserverv1.ProviderConfiguration) bool { return len(providerKeys(provider)) > 0 }

// localKeys lists the prefixes of all keys in the file.
func (c *configuration) localKeys() []string {
	var list []string
	for _, entry := range c.Resources {
		for _, provider := range entry.Providers {
			for _, key := range providerKeys(provider) {
				list = append(list, key.prefix())
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func (c *configuration) hasKey(prefix string) bool { return slices.Contains(c.localKeys(), prefix) }

// writingKeys lists the prefixes of the keys that encrypt.
func (c *configuration) writingKeys() []string {
	var list []string
	for _, entry := range c.Resources {
		if prefix := writingKey(entry); prefix != "" {
			list = append(list, prefix)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// writingKey is the prefix of the key that encrypts the entry's resources, or
// empty where that is none in the file.
func writingKey(entry apiserverv1.ResourceConfiguration) string {
	if len(entry.Providers) == 0 {
		return ""
	}
	if keys := providerKeys(entry.Providers[0]); len(keys) > 0 {
		return keys[0].prefix()
	}
	return ""
}

// writtenWith lists the resources that are encrypted with the key of a prefix.
func (c *configuration) writtenWith(prefix string) []string {
	var list []string
	for _, entry := range c.Resources {
		if writingKey(entry) == prefix {
			list = append(list, entry.Resources...)
		}
	}
	return list
}

// addKey makes the key the first one wherever a key in the file encrypts, and
// one to read with wherever the file has other keys.
func (c *configuration) addKey(key apiserverv1.Key) {
	for i := range c.Resources {
		entry := &c.Resources[i]
		if !slices.ContainsFunc(entry.Providers, isLocal) {
			continue
		}
		first := entry.Providers[0]
		last := slices.IndexFunc(entry.Providers, func(p apiserverv1.ProviderConfiguration) bool { return p.Secretbox != nil })
		added := apiserverv1.ProviderConfiguration{Secretbox: &apiserverv1.SecretboxConfiguration{Keys: []apiserverv1.Key{key}}}
		switch {
		case first.Secretbox != nil:
			entry.Providers[0] = withKeys(first, append([]apiserverv1.Key{key}, first.Secretbox.Keys...))
		case isLocal(first):
			entry.Providers = slices.Insert(entry.Providers, 0, added)
		case last >= 0 && c.generated:
			// As generate does: the same keys in the same order everywhere.
			entry.Providers[last] = withKeys(entry.Providers[last], append([]apiserverv1.Key{key}, entry.Providers[last].Secretbox.Keys...))
		case last >= 0:
			entry.Providers[last] = withKeys(entry.Providers[last], append(slices.Clone(entry.Providers[last].Secretbox.Keys), key))
		default:
			entry.Providers = append(entry.Providers, added)
		}
	}
}

func withKeys(provider apiserverv1.ProviderConfiguration, keys []apiserverv1.Key) apiserverv1.ProviderConfiguration {
	switch {
	case provider.Secretbox != nil:
		provider.Secretbox = &apiserverv1.SecretboxConfiguration{Keys: keys}
	case provider.AESGCM != nil:
		provider.AESGCM = &apiserverv1.AESConfiguration{Keys: keys}
	case provider.AESCBC != nil:
		provider.AESCBC = &apiserverv1.AESConfiguration{Keys: keys}
	}
	return provider
}

// withoutKeys returns c without the keys of the prefixes, and without providers
// that have no key then.
func (c *configuration) withoutKeys(prefixes []string) *configuration {
	result := &configuration{EncryptionConfiguration: *c.DeepCopy(), file: c.file}
	for i := range result.Resources {
		var providers []apiserverv1.ProviderConfiguration
		for _, provider := range result.Resources[i].Providers {
			keys := providerKeys(provider)
			if len(keys) == 0 {
				providers = append(providers, provider)
				continue
			}
			var kept []apiserverv1.Key
			for _, key := range keys {
				if !slices.Contains(prefixes, key.prefix()) {
					kept = append(kept, key.Key)
				}
			}
			if len(kept) > 0 {
				providers = append(providers, withKeys(provider, kept))
			}
		}
		result.Resources[i].Providers = providers
	}
	return result
}
