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
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

const (
	namespaceWorkers = 10
	// minNamespaceRetry is the delay of the first retry.
	minNamespaceRetry = 100 * time.Millisecond
	// maxNamespaceRetry bounds the delay of a retry, for example of a namespace that
	// still has content.
	maxNamespaceRetry = 5 * time.Second
)

// namespaces deletes the content of terminating namespaces and finalizes them, with
// upstream's deleter. It has a loop of its own, because upstream's first waits 5 s,
// which a single server does not need, and its deleter visits every type that
// discovery lists, most of which have no objects.
type namespaces struct {
	env     *environment
	client  kubernetes.Interface
	objects metadata.Interface
	loop    *reconcile.Loop[string]
	lister  listers.NamespaceLister
	logged  logging.Changes // failures, by the name of the namespace

	mu          sync.Mutex
	terminating map[types.UID]time.Time // when the informer reported it
}

func buildNamespaces(_ context.Context, env *environment, client kubernetes.Interface) (runFunc, error) {
	objects, err := env.metadata("namespace-controller")
	if err != nil {
		return nil, err
	}
	n := &namespaces{
		env:    env,
		client: client, objects: objects,
		lister:      env.informers.core().V1().Namespaces().Lister(),
		terminating: map[types.UID]time.Time{},
	}
	n.loop = reconcile.New(reconcile.Config[string]{
		Name: "namespace", Workers: namespaceWorkers, Handle: n.handle,
		MinRetry: minNamespaceRetry, MaxRetry: maxNamespaceRetry,
	})
	informer := env.informers.core().V1().Namespaces().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    n.enqueue,
		UpdateFunc: func(_, current any) { n.enqueue(current) },
		DeleteFunc: n.forget,
	})
	if err != nil {
		return nil, fmt.Errorf("watch namespaces: %w", err)
	}
	return n.loop.Run, nil
}

// enqueue is called when the cache of admission has the namespace: from now on this API
// server refuses requests that create objects in it. Only requests in flight can still
// create one.
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
	if namespace, ok := reconcile.Deleted[*corev1.Namespace](obj); ok {
		n.mu.Lock()
		delete(n.terminating, namespace.UID)
		n.mu.Unlock()
	}
}

// graceLeft returns how long to wait for other API servers, which must see that the
// namespace is terminating. It is 0 for a single server, see enqueue.
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
	if !known { // another namespace of that name was created since
		return 0, nil
	}
	return kube.NamespaceGrace - time.Since(since), nil
}

// handle deletes the content of one namespace. If an aggregated API server is down, the
// namespace stays until it is up; the conditions of the namespace name its group.
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
		n.env.config.Log.Warn("deleting the content of a namespace failed, trying again", "namespace", name, "error", err)
	}
	return reconcile.Retry()
}

// delete deletes with a deleter for this namespace only: the types to visit differ.
func (n *namespaces) delete(ctx context.Context, name string) error {
	if err := n.env.types.refresh(); err != nil {
		return fmt.Errorf("delete the content of namespace %s: %w", name, err)
	}
	return kube.DeleteContent(ctx, n.client, n.objects, name,
		func() ([]*metav1.APIResourceList, error) { return n.types(ctx, name) })
}

// types lists the types to visit: all types of aggregated API servers, the types of
// this server with objects in the namespace, and configmaps, so that the list is never
// empty.
func (n *namespaces) types(ctx context.Context, namespace string) ([]*metav1.APIResourceList, error) {
	lists, err := n.env.types.namespaced()
	if n.env.config.HasObjects == nil {
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
			has, contentErr := n.env.config.HasObjects(ctx, gv.WithResource(resource.Name).GroupResource(), namespace)
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
