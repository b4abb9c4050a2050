package undelete

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// fieldManager is the field manager of the requests. The managers in the journal are
// written after the creation.
const fieldManager = "kube-hyper-mini-undelete"

// typeTimeout bounds the wait until a type is served after its definition was created.
const typeTimeout = 30 * time.Second

// Apply creates the objects of the plan, owners first, and sets the action of each item
// to the result. If an object cannot be created, its dependents are left out and the
// others are created. An error means that the server does not answer.
//
// The object that the plan was requested for is created first, with a mark that names the
// moment. The mark is removed when everything has come back.
func (p *Plan) Apply(ctx context.Context) error {
	if err := p.eachToCreate(ctx, p.create); err != nil {
		return err
	}
	if p.Problems() > 0 || p.mark == nil && p.root.Action != Created {
		return nil
	}
	return p.removeMark(ctx)
}

// create creates an object, or completes one that an interrupted run has created.
func (p *Plan) create(ctx context.Context, item *Item) error {
	former, err := p.read(ctx, item)
	if err != nil {
		return err
	}
	if item.mapping == nil {
		if item.mapping, err = p.client.Mapper.RESTMapping(item.groupKind(), item.gvk().Version); err != nil {
			item.becomes(Gone, err.Error())
			return nil
		}
	}
	status, err := p.client.hasStatus(item.mapping)
	if err != nil {
		return err
	}
	client := p.client.at(item.mapping, item.Namespace)
	var created *unstructured.Unstructured
	if item.Action == Complete {
		created, err = client.Get(ctx, item.Name, metav1.GetOptions{})
		status = status && err == nil && !hasStatusManager(created)
	} else {
		object := prepared(former, p.references(item), !status)
		if item == p.root {
			setMark(object, mark{Object: item.String(), Revision: p.Revision})
		}
		created, err = client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) && p.isServersOwn(item) {
			created, err = client.Apply(ctx, item.Name, object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		}
	}
	if err != nil {
		if err = refused(ctx, item, err); err != nil && item.Action == Create {
			item.becomes(Unknown, "the server did not answer")
		}
		return err
	}
	item.NewUID = created.GetUID()
	p.uids.Store(item.UID, item.NewUID)
	item.becomes(Incomplete, "interrupted before its status and field managers were restored")
	return p.complete(ctx, item, created, former, status)
}

// complete restores what a creation does not take, and sets the action.
func (p *Plan) complete(ctx context.Context, item *Item, created, former *unstructured.Unstructured,
	status bool) (err error) {
	result, reason := Created, ""
	if item.groupKind() == definitionKind {
		if reason, err = p.awaitType(ctx); err != nil {
			return err
		}
	}
	if status && !ownStatus[item.groupKind()] {
		var missing string
		if created, missing, err = p.restoreStatus(ctx, item, created, former); err != nil {
			return err
		}
		reason = cmp.Or(reason, missing)
	}
	if reason != "" {
		result = Incomplete
	}
	managers, err := p.restoreManagers(ctx, item, created, former)
	if err != nil {
		return err
	}
	item.becomes(result, cmp.Or(reason, managers))
	return nil
}

// isServersOwn reports whether the server makes the object in each new namespace, and the
// plan, or the run that it continues, has created its namespace.
func (p *Plan) isServersOwn(item *Item) bool {
	namespace := p.namespaces[item.Namespace]
	return item.groupKind() == serviceAccountKind && item.Name == "default" && namespace != nil &&
		(namespace.Action == Created || p.mark != nil)
}

// awaitType waits until the server has the type of a definition. It returns why it has not.
func (p *Plan) awaitType(ctx context.Context) (missing string, err error) {
	for kind := range p.newTypes {
		version := ""
		for _, other := range p.Items {
			if other.groupKind() == kind {
				version = other.gvk().Version
				break
			}
		}
		if version == "" {
			return "", nil // it has no objects
		}
		var last error
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, typeTimeout, true, func(context.Context) (bool, error) {
			p.client.Mapper.Reset()
			_, last = p.client.Mapper.RESTMapping(kind, version)
			return last == nil, nil
		})
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if err != nil {
			return fmt.Sprintf("the server does not serve the type: %v", last), nil
		}
	}
	return "", nil
}

// ownStatus are the kinds whose status the server computes itself.
var ownStatus = map[schema.GroupKind]bool{namespaceKind: true, definitionKind: true, serviceKind: true, quotaKind: true}

// restoreStatus writes the status of the journal. It does not if another client has
// written the object since: that status is newer. It returns the object as it is then, and
// why the status is missing.
func (p *Plan) restoreStatus(
	ctx context.Context, item *Item, created, former *unstructured.Unstructured,
) (_ *unstructured.Unstructured, missing string, _ error) {
	status, found, err := unstructured.NestedFieldCopy(former.Object, "status")
	if content, isMap := status.(map[string]any); err != nil || !found || isMap && len(content) == 0 {
		return created, "", nil
	}
	object := created.DeepCopy()
	object.Object["status"] = status
	updated, err := p.client.at(item.mapping, item.Namespace).UpdateStatus(ctx, object,
		metav1.UpdateOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		return updated, "", nil
	case ctx.Err() != nil:
		return nil, "", context.Cause(ctx)
	case isUnanswered(err):
		return nil, "", fmt.Errorf("%s: %w", item, err)
	case !apierrors.IsConflict(err):
		missing = fmt.Sprintf("without its status: %v", err)
	}
	return created, missing, nil
}

// restoreManagers writes the field managers of the journal, so that their next
// server-side apply does not conflict with fieldManager. Managers that have written since
// the creation are kept. It returns why they are missing.
func (p *Plan) restoreManagers(
	ctx context.Context, item *Item, created, former *unstructured.Unstructured,
) (missing string, err error) {
	if len(former.GetManagedFields()) == 0 {
		return "", nil
	}
	client := p.client.at(item.mapping, item.Namespace)
	live := created
	err = retry.RetryOnConflict(retry.DefaultRetry, func() (err error) {
		if live == nil {
			if live, err = client.Get(ctx, item.Name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		managers := former.GetManagedFields()
		for _, entry := range live.GetManagedFields() {
			if entry.Manager != fieldManager && !slices.ContainsFunc(managers,
				func(m metav1.ManagedFieldsEntry) bool { return sameManager(m, entry) }) {
				managers = append(managers, entry)
			}
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": managers,
			"resourceVersion": live.GetResourceVersion()}})
		if err == nil {
			_, err = client.Patch(ctx, item.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		}
		live = nil
		return err
	})
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if isUnanswered(err) {
		return "", fmt.Errorf("%s: %w", item, err)
	}
	if err != nil {
		missing = fmt.Sprintf("without its field managers: %v", err)
	}
	return missing, nil
}

func sameManager(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource &&
		a.APIVersion == b.APIVersion
}
