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
	// reserved are the names that writes in progress accept, by group.
	reserved map[string]map[*reservation]bool
}

func newNames(catalog *catalog, exists func(context.Context, string) (bool, error), filled func() bool) *names {
	return &names{catalog: catalog, exists: exists, filled: filled, reserved: map[string]map[*reservation]bool{}}
}

// reservation holds names from before a write until the catalog has its result.
type reservation struct {
	names *names
	owner string // the name of the CRD
	group string
	held  customresources.Names
}

// reservationKey is the context key of the reservation of a creation.
type reservationKey struct{}

// begin returns a context for one write, and the function that ends it.
func (n *names) begin(ctx context.Context) (context.Context, func()) {
	r := &reservation{names: n}
	return context.WithValue(ctx, reservationKey{}, r), r.release
}

func (r *reservation) release() {
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	r.drop()
}

// drop is called with mu held.
func (r *reservation) drop() {
	delete(r.names.reserved[r.group], r)
	if len(r.names.reserved[r.group]) == 0 {
		delete(r.names.reserved, r.group)
	}
}

// take holds the names of a CRD if no other CRD of its group has accepted, or is
// accepting, any of them. It replaces what r held before. During a start, until the
// catalog has all CRDs, it returns false.
func (r *reservation) take(ctx context.Context, owner, group string,
	names apiextensions.CustomResourceDefinitionNames) bool {
	if !r.names.filled() {
		return false
	}
	if !r.add(owner, group, customresources.NamesOf(names)) {
		return false
	}
	// With the reservation: a write that ends meanwhile has its result in the catalog.
	if r.accepted(ctx) {
		r.release()
		return false
	}
	return true
}

// add holds the names unless another reservation has any of them.
func (r *reservation) add(owner, group string, held customresources.Names) bool {
	r.names.mu.Lock()
	defer r.names.mu.Unlock()
	r.drop()
	r.owner, r.group, r.held = owner, group, held
	for other := range r.names.reserved[group] {
		if other.owner != owner && held.Overlap(other.held) {
			return false
		}
	}
	if r.names.reserved[group] == nil {
		r.names.reserved[group] = map[*reservation]bool{}
	}
	r.names.reserved[group][r] = true
	return true
}

// accepted reports whether another CRD has accepted any of the names.
func (r *reservation) accepted(ctx context.Context) bool {
	for _, crd := range r.names.catalog.group(r.group) {
		if crd.Name == r.owner {
			continue
		}
		if !r.held.Collide(crd.Status.AcceptedNames) {
			continue
		}
		// The catalog may not have received a deletion yet.
		if exists, err := r.names.exists(ctx, crd.Name); exists || err != nil {
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
	r, reserves := ctx.Value(reservationKey{}).(*reservation)
	if !isCRD || !reserves || !r.take(ctx, crd.Name, crd.Spec.Group, crd.Spec.Names) {
		return
	}
	customresources.Establish(crd)
}

// guard refuses a status update that accepts names which another CRD has. Upstream's
// naming controller, which reads them from its informer, tries again.
func (r *reservation) guard(ctx context.Context, updated, old runtime.Object) (runtime.Object, error) {
	crd, ok := updated.(*apiextensions.CustomResourceDefinition)
	before, isCRD := old.(*apiextensions.CustomResourceDefinition)
	if !ok || !isCRD {
		return updated, nil
	}
	added := newNamesOf(crd.Status.AcceptedNames, before.Status.AcceptedNames)
	if len(added.ShortNames) == 0 && added.Plural+added.Singular+added.Kind+added.ListKind == "" {
		return updated, nil
	}
	if !r.names.filled() {
		return nil, apierrors.NewServiceUnavailable("the server is still reading the CustomResourceDefinitions, one of " +
			"which may have accepted the same names; try again")
	}
	if r.take(ctx, before.Name, before.Spec.Group, added) {
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
		ShortNames: slices.DeleteFunc(slices.Clone(now.ShortNames),
			func(name string) bool { return slices.Contains(before.ShortNames, name) }),
	}
}
