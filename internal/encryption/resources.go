package encryption

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/workloads"
)

// builtInGroups has the group of each built-in resource, which most of their keys lack.
var builtInGroups = sync.OnceValue(func() map[string]string {
	groups := map[string]string{workloads.IPAddresses.Resource: workloads.IPAddresses.Group}
	for _, types := range []map[string][]string{kube.StoredTypes, workloads.StoredTypes} {
		for group, names := range types {
			for _, name := range names {
				groups[name] = group
			}
		}
	}
	return groups
})

// resourceOf returns the resource of an object by its key, without the prefix of all keys.
// Found is false for keys of other data, such as the ranges of node ports.
func resourceOf(key string) (resource schema.GroupResource, found bool) {
	resource, _ = store.CutKey(key)
	if resource.Group != "" {
		return resource, true
	}
	resource.Group, found = builtInGroups()[resource.Resource]
	return resource, found
}

// storedBelow lists the key prefixes of a resource: built-in resources are stored under
// their name, others under their group. *.* is checked as secrets and config maps.
func storedBelow(root, resource string) []string {
	name, group, _ := strings.Cut(resource, ".")
	if resource == "*.*" || resource == "*." {
		return []string{builtInKeys(root, schema.GroupResource{Resource: "secrets"}), builtInKeys(root,
			schema.GroupResource{Resource: "configmaps"})}
	}
	var below []string
	if name == "*" {
		below = append(below, store.NamespaceKeys(root, store.CustomResourcePrefix(schema.GroupResource{Group: group}), ""))
	} else if group != "" {
		below = append(below, store.NamespaceKeys(root,
			store.CustomResourcePrefix(schema.GroupResource{Group: group, Resource: name}), ""))
	}
	for builtIn, of := range builtInGroups() {
		if of == group && (builtIn == name || name == "*") {
			below = append(below, builtInKeys(root, schema.GroupResource{Group: group, Resource: builtIn}))
		}
	}
	return below
}

// builtInKeys is the beginning of the keys of a built-in resource.
func builtInKeys(root string, resource schema.GroupResource) string {
	return store.NamespaceKeys(root, workloads.KeyPrefix(resource), "")
}
