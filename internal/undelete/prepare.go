package undelete

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// isEmptyAccount reports whether a service account is as the server makes it.
func isEmptyAccount(account *unstructured.Unstructured) bool {
	_, secrets := account.Object["secrets"]
	_, pullSecrets := account.Object["imagePullSecrets"]
	return !secrets && !pullSecrets && len(account.GetLabels()) == 0 && len(account.GetAnnotations()) == 0
}

// serverFields are set by the server for a new object.
var serverFields = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields",
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
		annotations := object.GetAnnotations()
		delete(annotations, corev1.ServiceAccountUIDKey)
		object.SetAnnotations(annotations)
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
