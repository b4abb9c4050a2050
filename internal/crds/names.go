package crds

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
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
// accepting, any of them. During a start, until the catalog has all CRDs, it returns false.
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

// Validate implements [rest.RESTCreateStrategy]. The accepted names are those of the spec, whose errors
// would be there twice.
func (e establishing) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return slices.DeleteFunc(e.RESTCreateStrategy.Validate(ctx, obj),
		func(err *field.Error) bool { return strings.HasPrefix(err.Field, "status.acceptedNames") })
}

// guard refuses a status update that accepts names which another write accepts at the same time.
// Upstream's naming controller, whose informer does not have that CRD yet, tries again.
func (r *reservation) guard(ctx context.Context, updated, old runtime.Object) (runtime.Object, error) {
	crd, ok := updated.(*apiextensions.CustomResourceDefinition)
	before, isCRD := old.(*apiextensions.CustomResourceDefinition)
	if !ok || !isCRD || equality.Semantic.DeepEqual(crd.Status.AcceptedNames, before.Status.AcceptedNames) ||
		r.take(ctx, before.Name, before.Spec.Group, crd.Status.AcceptedNames) {
		return updated, nil
	}
	return nil, apierrors.NewServiceUnavailable("another CustomResourceDefinition of the group has, or may have, one of " +
		"the names in status.acceptedNames; try again, or use other names")
}
