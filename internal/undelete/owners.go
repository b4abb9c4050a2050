package undelete

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// checkOwners reports whether one of the owners of an object exists or is restored. If
// none is, the garbage collector would delete the object: its action becomes NoOwner.
func (p *Plan) checkOwners(ctx context.Context, item *Item) (bool, error) {
	missing, found := "", len(item.owners) == 0
	for _, reference := range item.owners {
		owner := p.byUID[reference.UID]
		if owner != nil && !owner.mayOwn(item) {
			missing = fmt.Sprintf("its owner %s is in another namespace", owner)
			continue
		}
		if owner != nil {
			found = found || owner.comesBack()
			if !owner.comesBack() {
				missing = fmt.Sprintf("its owner %s does not come back", owner)
			}
			continue
		}
		uid, err := p.owner(ctx, reference, item.Namespace)
		switch {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil:
			missing = fmt.Sprintf("its owner %s %s cannot be read: %v", reference.Kind, reference.Name, err)
		case uid == "":
			missing = fmt.Sprintf("its owner %s %s does not exist: bring that back, or use --orphan", reference.Kind, reference.Name)
		default:
			found = true
		}
	}
	if found || p.orphan { // the garbage collector keeps it until its last owner is gone
		return true, nil
	}
	item.becomes(NoOwner, missing)
	return false, nil
}

// mayOwn reports whether the garbage collector takes i for an owner of the item: one in a
// namespace has no dependents elsewhere.
func (i *Item) mayOwn(item *Item) bool { return i.Namespace == "" || i.Namespace == item.Namespace }

// owner returns the present UID of an owner outside of the plan; empty if it does not
// exist. An object that was created again with the owner's name counts as the owner.
func (p *Plan) owner(ctx context.Context, reference metav1.OwnerReference, namespace string) (types.UID, error) {
	p.mu.Lock()
	uid, known := p.uids[reference.UID]
	p.mu.Unlock()
	if known {
		return uid, nil
	}
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	mapping, err := p.client.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err == nil {
		var live metav1.Object
		live, err = p.client.at(mapping, namespace).Get(ctx, reference.Name, metav1.GetOptions{})
		if err == nil {
			uid = live.GetUID()
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return "", err
	}
	p.setUID(reference.UID, uid)
	return uid, nil
}

func (p *Plan) setUID(old, present types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uids[old] = present
}

// references returns the owner references of an object with the present UIDs,
// without owners that do not exist or are in another namespace.
func (p *Plan) references(item *Item) []metav1.OwnerReference {
	p.mu.Lock()
	defer p.mu.Unlock()
	var references []metav1.OwnerReference
	for _, reference := range item.owners {
		if owner := p.byUID[reference.UID]; owner != nil && !owner.mayOwn(item) {
			continue
		}
		if uid := p.uids[reference.UID]; uid != "" {
			reference.UID = uid
			references = append(references, reference)
		}
	}
	return references
}
