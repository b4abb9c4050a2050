package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"
)

// Upstream fact: how the content of a namespace is deleted
//
// Mirrors: k8s.io/kubernetes/pkg/controller/namespace.namespaceDeletionGracePeriod
//   k8s.io/kubernetes/pkg/controller/namespace.NamespaceController.syncNamespaceFromKey
//   k8s.io/kubernetes/pkg/controller/namespace/deletion.NewNamespacedResourcesDeleter
//   k8s.io/kubernetes/pkg/controller/namespace/deletion.namespacedResourcesDeleter.Delete
//   k8s.io/kubernetes/pkg/controller/namespace/deletion.namespacedResourcesDeleter.deleteAllContent
// Why: the controller waits 5 s for other API servers and visits every type
//   that discovery lists, where most have no objects. Its deleter is exported,
//   and ends the process if discovery is empty when it is made.
// Gain: an empty namespace is deleted in 7 ms instead of 5.07 s, and with 600 CRDs in 30 ms
//   instead of 6.41 s (bench, namespace-empty and namespace-empty-crds).
// Breaks: a namespace stays, or objects stay behind. Tests:
//   TestNamespaceDeletionRemovesObjects.

// NamespaceGrace is the time for other API servers to see that a namespace is
// terminating (namespaceDeletionGracePeriod).
const NamespaceGrace = 5 * time.Second

// DeleteContent deletes the objects of a terminating namespace and removes its finalizer.
// types lists the types to visit; it is called more than once. While objects are left,
// the error is a [deletion.ResourcesRemainingError].
func DeleteContent(ctx context.Context, client kubernetes.Interface, objects metadata.Interface, namespace string,
	types func() ([]*metav1.APIResourceList, error)) error {
	lists, err := types()
	if len(lists) == 0 {
		// The constructor ends the process then.
		return errors.Join(fmt.Errorf("delete the content of namespace %s: discovery lists no types", namespace), err)
	}
	// The constructor only logs an error of discovery. Delete returns it again.
	constructed := false
	discover := func() ([]*metav1.APIResourceList, error) {
		if constructed {
			return types()
		}
		constructed = true
		return lists, nil
	}
	deleter := deletion.NewNamespacedResourcesDeleter(ctx, client.CoreV1().Namespaces(), objects, client.CoreV1(),
		discover, corev1.FinalizerKubernetes)
	return deleter.Delete(ctx, namespace)
}
