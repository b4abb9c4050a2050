package undelete

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
)

// markAnnotation is on the object that a plan was requested for, from its creation until
// everything has come back. A later run finds the moment in it: in the journal, the state
// just before would be the half-restored one.
const markAnnotation = "kube-hyper-mini.io/undelete"

// mark is the value of the annotation.
type mark struct {
	// Object that the mark is for: controllers copy annotations to other objects.
	Object string `json:"object"`
	// Revision of the moment.
	Revision int64 `json:"revision"`

	created time.Time // when the object that has the mark was created
}

// readMark returns the mark of an object that exists; nil if it has none.
func (c *Client) readMark(ctx context.Context, object history.Object) (*mark, error) {
	mapping, err := c.Mapper.RESTMapping(object.GroupKind())
	if err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("ask the server for its types: %w", err)
	}
	live, err := c.at(mapping, object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", object, err)
	}
	item := Item{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}
	found := &mark{created: live.GetCreationTimestamp().Time}
	err = json.Unmarshal([]byte(live.GetAnnotations()[markAnnotation]), found)
	if err != nil || found.Object != item.String() || found.Revision <= 0 {
		return nil, nil // not ours
	}
	return found, nil
}

// setMark sets the mark of an object.
func setMark(object *unstructured.Unstructured, m mark) {
	value, _ := json.Marshal(m) // a string and a number cannot fail
	_ = unstructured.SetNestedField(object.Object, string(value), "metadata", "annotations", markAnnotation)
}

// removeMark removes the mark from the object that exists.
func (p *Plan) removeMark(ctx context.Context) error {
	patch := []byte(`{"metadata":{"annotations":{"` + markAnnotation + `":null}}}`)
	options := metav1.PatchOptions{FieldManager: fieldManager}
	_, err := p.client.at(p.root.mapping, p.root.Namespace).Patch(ctx, p.root.Name, types.MergePatchType, patch, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("everything has come back; remove the annotation %s from %s: %w", markAnnotation, p.root, err)
	}
	return nil
}

// isUnfinished reports whether a run has created an object, and ended before it restored the
// status or the field managers.
func isUnfinished(live, former *unstructured.Unstructured) bool {
	ours := slices.ContainsFunc(live.GetManagedFields(),
		func(m metav1.ManagedFieldsEntry) bool { return m.Manager == fieldManager })
	_, status := former.Object["status"]
	return ours && (len(former.GetManagedFields()) > 0 || status && !hasStatusManager(live))
}

// hasStatusManager reports whether a client has written the status since the creation.
func hasStatusManager(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(),
		func(m metav1.ManagedFieldsEntry) bool { return m.Subresource == "status" })
}

// isEmptyAccount reports whether a service account is as the server makes it.
func isEmptyAccount(account *unstructured.Unstructured) bool {
	_, secrets := account.Object["secrets"]
	_, pullSecrets := account.Object["imagePullSecrets"]
	return !secrets && !pullSecrets && len(account.GetLabels()) == 0 && len(account.GetAnnotations()) == 0
}

// serverFields are set by the server for a new object.
var serverFields = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
	"selfLink", "managedFields",
}

// deletionFinalizers are set by a deletion.
var deletionFinalizers = []string{metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}

// read returns an object as the journal has it.
func (p *Plan) read(ctx context.Context, item *Item) (*unstructured.Unstructured, error) {
	object, err := p.objects.Read(ctx, item.key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", item, err)
	}
	return object, nil
}

// prepared returns the object to send to create one of the journal. If its status is a
// subresource, it is left out.
func prepared(former *unstructured.Unstructured, references []metav1.OwnerReference,
	withStatus bool) *unstructured.Unstructured {
	object := former.DeepCopy()
	for _, field := range serverFields {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	object.SetOwnerReferences(references)
	if former.GetDeletionTimestamp() != nil {
		object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(),
			func(f string) bool { return slices.Contains(deletionFinalizers, f) }))
	}
	if !withStatus {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	if isTokenSecret(object) {
		// The token is for the UID of the former service account. The controller of
		// tokens makes a new one, and deletes a Secret with another UID.
		unstructured.RemoveNestedField(object.Object, "data")
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", corev1.ServiceAccountUIDKey)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", markAnnotation)
	if len(object.GetAnnotations()) == 0 {
		object.SetAnnotations(nil)
	}
	return object
}

func isTokenSecret(object *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(object.Object, "type") // empty is another type
	return object.GroupVersionKind().GroupKind() == secretKind && kind == string(corev1.SecretTypeServiceAccountToken)
}

// same reports whether an object that exists has the content of one that would be
// created: it was brought back before.
func same(live, wanted *unstructured.Unstructured) bool {
	live, wanted = prepared(live, nil, false), prepared(wanted, nil, false)
	return equality.Semantic.DeepEqual(live.Object, wanted.Object)
}
