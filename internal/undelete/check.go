package undelete

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// checkItem asks the server whether it would create an object.
func (p *Plan) checkItem(ctx context.Context, item *Item) error {
	if unchecked := p.unchecked(item); unchecked != "" {
		return p.mayCreate(ctx, item, unchecked)
	}
	former, err := p.read(ctx, item)
	if err != nil {
		return err
	}
	status, err := p.client.hasStatus(item.mapping)
	if err != nil {
		return err
	}
	object := prepared(former, former.GetOwnerReferences(), !status)
	_, err = p.client.at(item.mapping, item.Namespace).Create(ctx, object,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return p.compare(ctx, item, former, object)
	}
	return refused(ctx, item, err)
}

// parent returns the namespace or the definition of an object if the plan has it.
func (p *Plan) parent(item *Item) *Item {
	if p.newTypes[item.groupKind()] != nil {
		return p.Items[0]
	}
	return p.namespaces[item.Namespace]
}

// unchecked returns what must exist before a dry run with an object is possible; empty
// if nothing is missing.
func (p *Plan) unchecked(item *Item) string {
	if item.mapping == nil {
		return "its type"
	}
	if namespace := p.namespaces[item.Namespace]; namespace != nil && namespace.Action == Create {
		return "its namespace"
	}
	return ""
}

// mayCreate reviews the user's right to create an object with which no dry run is
// possible yet.
func (p *Plan) mayCreate(ctx context.Context, item *Item, unchecked string) error {
	attributes := authorizationv1.ResourceAttributes{Verb: "create", Group: item.gvk().Group, Version: item.gvk().Version,
		Namespace: item.Namespace}
	if item.mapping != nil {
		attributes.Resource = item.mapping.Resource.Resource
	} else {
		attributes.Resource = p.newTypes[item.groupKind()].resource
	}
	allowed, err := p.allowed(ctx, attributes)
	switch {
	case err != nil:
		return refused(ctx, item, err)
	case !allowed:
		item.becomes(Refused, fmt.Sprintf("you may not create %s in namespace %q", attributes.Resource, item.Namespace))
	default:
		item.Reason = "not checked: " + unchecked + " does not exist yet"
	}
	return nil
}

// allowed asks the server for a right, once for all objects of a type in a namespace.
func (p *Plan) allowed(ctx context.Context, attributes authorizationv1.ResourceAttributes) (bool, error) {
	if answer, known := p.rights.Load(attributes); known {
		return answer.(bool), nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes}}
	review, err := p.client.authorization.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	p.rights.Store(attributes, review.Status.Allowed)
	return review.Status.Allowed, nil
}

// refused sets the action to Refused if the server has refused the object. It returns
// other errors, which end the plan.
func refused(ctx context.Context, item *Item, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isUnanswered(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%s: %w", item, err)
	}
	item.becomes(Refused, err.Error())
	return nil
}

// isUnanswered reports whether the server did not decide on a request: it did not answer, or
// it is stopping or overloaded.
func isUnanswered(err error) bool {
	if err == nil {
		return false
	}
	status := apierrors.APIStatus(nil)
	return !errors.As(err, &status) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}

// compare sets the action of an object whose name exists.
func (p *Plan) compare(ctx context.Context, item *Item, former, wanted *unstructured.Unstructured) error {
	live, err := p.client.at(item.mapping, item.Namespace).Get(ctx, item.Name, metav1.GetOptions{})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		item.becomes(Taken, fmt.Sprintf("an object of that name exists, and cannot be read: %v", err))
		return nil
	}
	switch {
	case live.GetDeletionTimestamp() != nil:
		reason := "it is being deleted"
		if finalizers := live.GetFinalizers(); len(finalizers) > 0 {
			reason += "; finalizers: " + strings.Join(finalizers, ", ")
		}
		item.becomes(Taken, reason+": try again when it is gone")
	case live.GetUID() == item.UID:
		item.becomes(Exists, "")
	case isUnfinished(live, former):
		item.becomes(Complete, "it exists; its status and field managers were not restored")
	case item.groupKind() == namespaceKind:
		item.becomes(Exists, "it is not changed")
	case same(live, wanted):
		item.becomes(Exists, "as in the journal")
	case p.mark != nil && p.isServersOwn(item) && isEmptyAccount(live):
		return nil // the server has made it for the namespace that the interrupted run has created
	case p.mark != nil && !live.GetCreationTimestamp().Time.Before(p.mark.created):
		item.becomes(Exists, "it was created since the interrupted run began")
	default:
		item.becomes(Taken,
			"another object has its name since "+live.GetCreationTimestamp().Local().Format("2006-01-02 15:04:05"))
	}
	if item.comesBack() {
		item.NewUID = live.GetUID()
		p.uids.Store(item.UID, live.GetUID())
	}
	return nil
}

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
			missing = fmt.Sprintf("its owner %s %s does not exist: bring that back, or use --orphan", reference.Kind,
				reference.Name)
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
	if uid, known := p.uids.Load(reference.UID); known {
		return uid.(types.UID), nil
	}
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	mapping, err := p.client.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	var uid types.UID
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
	p.uids.Store(reference.UID, uid)
	return uid, nil
}

// references returns the owner references of an object with the present UIDs,
// without owners that do not exist or are in another namespace.
func (p *Plan) references(item *Item) []metav1.OwnerReference {
	var references []metav1.OwnerReference
	for _, reference := range item.owners {
		if owner := p.byUID[reference.UID]; owner != nil && !owner.mayOwn(item) {
			continue
		}
		if uid, known := p.uids.Load(reference.UID); known && uid != types.UID("") {
			reference.UID = uid.(types.UID)
			references = append(references, reference)
		}
	}
	return references
}
