package openapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// Source reads CustomResourceDefinitions. Its methods are called concurrently.
type Source interface {
	// List returns all definitions. Their schemas are not read.
	List() []*apiextensionsv1.CustomResourceDefinition
	// Get returns a definition with its schemas, or a NotFound error.
	Get(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error)
	// Changes returns a number that grows with each change of a definition.
	Changes() uint64
}

// groupVersion is what a v3 document is built from.
type groupVersion struct {
	version string
	names   []string // of the definitions, sorted
	hash    string   // changes when the document does
}

// index lists the group versions of established definitions by the path of
// their v3 document below /openapi/v3/.
type index map[string]*groupVersion

// newIndex derives the hashes from uid and generation, so that no document is built for
// them. A release may build a document in another way than the last one, so it is part of
// the hash.
func newIndex(definitions []*apiextensionsv1.CustomResourceDefinition, release string) index {
	definitions = slices.SortedFunc(slices.Values(definitions), func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(a.Name, b.Name)
	})
	x := index{}
	for _, definition := range definitions {
		if !apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
			continue
		}
		for _, version := range definition.Spec.Versions {
			if !version.Served {
				continue
			}
			path := "apis/" + definition.Spec.Group + "/" + version.Name
			gv := x[path]
			if gv == nil {
				gv = &groupVersion{version: version.Name, hash: release}
				x[path] = gv
			}
			gv.names = append(gv.names, definition.Name)
			gv.hash = digest(append([]string{gv.hash}, customresources.DocumentVersion(definition)...)...)
		}
	}
	return x
}

// names lists the definitions that serve at least one version, sorted.
func (x index) names() []string {
	var all []string
	for _, gv := range x {
		all = append(all, gv.names...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hash changes when any document does.
func (x index) hash() string {
	parts := make([]string, 0, len(x))
	for path, gv := range x {
		parts = append(parts, path+" "+gv.hash)
	}
	slices.Sort(parts)
	return digest(parts...)
}

// digest is a hash of the parts in their order.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
