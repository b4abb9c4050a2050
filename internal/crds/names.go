package crds

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// names prevents CRDs of one group from accepting the same names when they are written
// at the same time. It does not see the writes of other servers: only a server that is
// alone accepts the names of a CRD at its creation. It is safe for concurrent use.
type names struct {
	catalog *catalog
	// exists reports whether a CRD of the catalog is still stored.
	exists func(ctx context.Context, name string) (bool, error)
	// filled reports whether the catalog has all CRDs.
	filled func() bool

	mu sync.Mutex
	// claimed are the names that writes in progress accept, by group.
	claimed map[string]map[*claim]bool
}

func newNames(catalog *catalog, exists func(context.Context, string) (bool, error), filled func() bool) *names {
	return &names{catalog: catalog, exists: exists, filled: filled, claimed: map[string]map[*claim]bool{}}
}

// claim holds names from before a write until the catalog has its result.
type claim struct {
	names *names
	owner string // the CRD
	group string
	held  customresources.Names
}

// claimKey is the context key of the claim of a creation.
type claimKey struct{}

// begin returns a context for one write, and the function that ends it.
func (n *names) begin(ctx context.Context) (context.Context, func()) {
	c := &claim{names: n}
	return context.WithValue(ctx, claimKey{}, c), c.release
}

func (c *claim) release() {
	c.names.mu.Lock()
	defer c.names.mu.Unlock()
	c.drop()
}

// drop is called with mu held.
func (c *claim) drop() {
	delete(c.names.claimed[c.group], c)
	if len(c.names.claimed[c.group]) == 0 {
		delete(c.names.claimed, c.group)
	}
}

// take holds the names of a CRD if no other CRD of its group has accepted, or is
// accepting, any of them. It replaces what c held before. During a start, until the
// catalog has all CRDs, it returns false.
func (c *claim) take(ctx context.Context, owner, group string, names apiextensions.CustomResourceDefinitionNames) bool {
	if !c.names.filled() {
		return false
	}
	if !c.add(owner, group, customresources.NamesOf(names)) {
		return false
	}
	// With the claim: a write that ends meanwhile has its result in the catalog.
	if c.accepted(ctx) {
		c.release()
		return false
	}
	return true
}

// add holds the names unless another claim has any of them.
func (c *claim) add(owner, group string, held customresources.Names) bool {
	c.names.mu.Lock()
	defer c.names.mu.Unlock()
	c.drop()
	c.owner, c.group, c.held = owner, group, held
	for other := range c.names.claimed[group] {
		if other.owner != owner && held.Overlap(other.held) {
			return false
		}
	}
	if c.names.claimed[group] == nil {
		c.names.claimed[group] = map[*claim]bool{}
	}
	c.names.claimed[group][c] = true
	return true
}

// accepted reports whether another CRD has accepted any of the names.
func (c *claim) accepted(ctx context.Context) bool {
	for _, crd := range c.names.catalog.group(c.group) {
		if crd.Name == c.owner {
			continue
		}
		if !c.held.Collide(crd.Status.AcceptedNames) {
			continue
		}
		// The catalog may not have received a deletion yet.
		if exists, err := c.names.exists(ctx, crd.Name); exists || err != nil {
			return true
		}
	}
	return false
}

// establishing is upstream's strategy for creation, which also does what upstream's
// naming and establishing controllers do afterwards: accept the names and establish the
// CRD. These controllers handle a CRD whose names are, or may be, in use.
type establishing struct{ rest.RESTCreateStrategy }

// PrepareForCreate implements [rest.RESTCreateStrategy].
func (e establishing) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	e.RESTCreateStrategy.PrepareForCreate(ctx, obj)
	crd, isCRD := obj.(*apiextensions.CustomResourceDefinition)
	c, claims := ctx.Value(claimKey{}).(*claim)
	if !isCRD || !claims || !c.take(ctx, crd.Name, crd.Spec.Group, crd.Spec.Names) {
		return
	}
	customresources.Establish(crd)
}

// guard refuses a status update that accepts names which another CRD has. Upstream's
// naming controller, which reads them from its informer, tries again.
func (c *claim) guard(ctx context.Context, updated, old runtime.Object) (runtime.Object, error) {
	crd, ok := updated.(*apiextensions.CustomResourceDefinition)
	before, isCRD := old.(*apiextensions.CustomResourceDefinition)
	if !ok || !isCRD {
		return updated, nil
	}
	added := newNamesOf(crd.Status.AcceptedNames, before.Status.AcceptedNames)
	if len(added.ShortNames) == 0 && added.Plural+added.Singular+added.Kind+added.ListKind == "" {
		return updated, nil
	}
	if !c.names.filled() {
		return nil, apierrors.NewServiceUnavailable("the server is still reading the CustomResourceDefinitions, one of which may have accepted the same names; try again")
	}
	if c.take(ctx, before.Name, before.Spec.Group, added) {
		return updated, nil
	}
	return nil, apierrors.NewInvalid(apiextensions.Kind("CustomResourceDefinition"), before.Name, field.ErrorList{
		field.Invalid(field.NewPath("status", "acceptedNames"), crd.Status.AcceptedNames,
			"another CustomResourceDefinition of the group has one of these names; use others or delete it"),
	})
}

// newNamesOf returns the names of now that before does not have.
func newNamesOf(now, before apiextensions.CustomResourceDefinitionNames) apiextensions.CustomResourceDefinitionNames {
	unless := func(name, known string) string {
		if name == known {
			return ""
		}
		return name
	}
	return apiextensions.CustomResourceDefinitionNames{
		Plural: unless(now.Plural, before.Plural), Singular: unless(now.Singular, before.Singular),
		Kind: unless(now.Kind, before.Kind), ListKind: unless(now.ListKind, before.ListKind),
		ShortNames: slices.DeleteFunc(slices.Clone(now.ShortNames), func(name string) bool { return slices.Contains(before.ShortNames, name) }),
	}
}
