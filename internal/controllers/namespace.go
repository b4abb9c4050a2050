package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/namespace/deletion"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
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
// Gain: an empty namespace is deleted in 30 ms instead of 5.1 s, and with 600
//   CRDs in 41 ms instead of 7.1 s (bench, namespace-empty and
//   namespace-empty-crds).
// Breaks: a namespace stays, or objects stay behind. The e2e tests of
//   namespaces fail.

const (
	namespaceWorkers = 10
	// fleetGrace is upstream's namespaceDeletionGracePeriod: the time for
	// other API servers to see that a namespace is terminating.
	fleetGrace = 5 * time.Second
	// minNamespaceRetry is the first wait before a namespace is looked at again.
	minNamespaceRetry = 100 * time.Millisecond
	// maxNamespaceRetry bounds the wait before a namespace that still has
	// content is looked at again.
	maxNamespaceRetry = 5 * time.Second
)

// namespaces empties and finalizes namespaces that are being deleted. The work
// on one namespace is upstream's deleter; the loop around it is ours because
// upstream's waits 5 s first, which one server need not, and because its
// deleter visits every type that discovery lists, where most have no object.
type namespaces struct {
	env     *environment
	client  kubernetes.Interface
	objects metadata.Interface
	loop    *reconcile.Loop[string]
	lister  listers.NamespaceLister
	logged  logging.Changes // failures, by the name of the namespace

	mu          sync.Mutex
	terminating map[types.UID]time.Time // since when this process has known
}

func buildNamespaces(_ context.Context, env *environment) (func(context.Context), string, error) {
	const name = "namespace-controller"
	client, err := env.client(name)
	if err != nil {
		return nil, "", err
	}
	objects, err := env.metadata(name)
	if err != nil {
		return nil, "", err
	}
	n := &namespaces{
		env:    env,
		client: client, objects: objects,
		lister:      env.config.Informers.Core().V1().Namespaces().Lister(),
		terminating: map[types.UID]time.Time{},
	}
	n.loop = reconcile.New(reconcile.Config[string]{
		Name: "namespace", Workers: namespaceWorkers, MinRetry: minNamespaceRetry, MaxRetry: maxNamespaceRetry, Handle: n.handle,
	})
	informer := env.config.Informers.Core().V1().Namespaces().Informer()
	err = env.watch(informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    n.enqueue,
		UpdateFunc: func(_, current any) { n.enqueue(current) },
		DeleteFunc: n.forget,
	})
	if err != nil {
		return nil, "", fmt.Errorf("watch namespaces: %w", err)
	}
	return n.loop.Run, "", nil
}

// enqueue is called when the cache that admission reads has the namespace: what
// comes to this API server from now on is refused, so that only the requests in
// flight can still create objects in it.
func (n *namespaces) enqueue(obj any) {
	namespace, ok := obj.(*corev1.Namespace)
	if !ok || namespace.DeletionTimestamp == nil || len(namespace.Spec.Finalizers) == 0 {
		return
	}
	n.mu.Lock()
	if _, known := n.terminating[namespace.UID]; !known {
		n.terminating[namespace.UID] = time.Now()
	}
	n.mu.Unlock()
	if n.env.config.AfterWrites == nil {
		n.loop.Add(namespace.Name)
		return
	}
	n.env.config.AfterWrites(namespace.Name, func() { n.loop.Add(namespace.Name) })
}

func (n *namespaces) forget(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if namespace, ok := obj.(*corev1.Namespace); ok {
		n.mu.Lock()
		delete(n.terminating, namespace.UID)
		n.mu.Unlock()
	}
}

// graceLeft is how long other API servers still have to see that the namespace
// is terminating. A single server needs no time: see enqueue.
func (n *namespaces) graceLeft(ctx context.Context, name string) (time.Duration, error) {
	if alone := n.env.config.Alone; alone != nil {
		if isAlone, err := alone(ctx); isAlone || err != nil {
			return 0, err
		}
	}
	namespace, err := n.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("get namespace %s: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	since, known := n.terminating[namespace.UID]
	if !known { // a namespace of the same name was made since
		return 0, nil
	}
	return fleetGrace - time.Since(since), nil
}

// handle works on one namespace. An aggregated server that is down holds a
// namespace for as long as it is; the namespace's conditions say which.
func (n *namespaces) handle(ctx context.Context, name string) reconcile.Result {
	left, err := n.graceLeft(ctx, name)
	if left > 0 {
		return reconcile.After(left)
	}
	if err == nil {
		err = n.delete(ctx, name)
	}
	if err == nil {
		n.logged.Forget(name)
		return reconcile.Done()
	}
	var remaining *deletion.ResourcesRemainingError
	if !errors.As(err, &remaining) && ctx.Err() == nil && n.logged.Changed(name, err.Error()) {
		n.env.config.Log.Warn("a namespace cannot be deleted yet", "namespace", name, "error", err)
	}
	return reconcile.Retry()
}

// delete makes a deleter for one namespace, because the types to visit depend
// on it.
func (n *namespaces) delete(ctx context.Context, name string) error {
	if err := n.env.types.fresh(); err != nil {
		return fmt.Errorf("delete the content of namespace %s: %w", name, err)
	}
	lists, err := n.types(ctx, name)
	if len(lists) == 0 {
		// Upstream's constructor would end the process.
		return errors.Join(fmt.Errorf("delete the content of namespace %s: discovery lists no types", name), err)
	}
	// The constructor only logs an error, and this one comes again.
	constructed := false
	discover := func() ([]*metav1.APIResourceList, error) {
		if constructed {
			return n.types(ctx, name)
		}
		constructed = true
		return lists, nil
	}
	deleter := deletion.NewNamespacedResourcesDeleter(ctx, n.client.CoreV1().Namespaces(), n.objects, n.client.CoreV1(), discover, corev1.FinalizerKubernetes)
	return deleter.Delete(ctx, name)
}

// types lists what must be visited: remote types always, own types where the
// store has objects, and one that always exists so that the list is not empty.
func (n *namespaces) types(ctx context.Context, namespace string) ([]*metav1.APIResourceList, error) {
	lists, err := n.env.types.namespaced()
	if n.env.config.Content == nil {
		return lists, err
	}
	var visit []*metav1.APIResourceList
	for _, list := range lists {
		gv, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			return nil, fmt.Errorf("read discovery: %w", parseErr)
		}
		if n.env.config.Types.Remote(gv) {
			visit = append(visit, list)
			continue
		}
		kept := &metav1.APIResourceList{TypeMeta: list.TypeMeta, GroupVersion: list.GroupVersion}
		for _, resource := range list.APIResources {
			has, contentErr := n.env.config.Content.HasObjects(ctx, gv.WithResource(resource.Name).GroupResource(), namespace)
			if contentErr != nil {
				return nil, contentErr
			}
			if has || gv == corev1.SchemeGroupVersion && resource.Name == "configmaps" {
				kept.APIResources = append(kept.APIResources, resource)
			}
		}
		if len(kept.APIResources) > 0 {
			visit = append(visit, kept)
		}
	}
	return visit, err
}
