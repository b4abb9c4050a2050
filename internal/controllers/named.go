package controllers

import (
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// namedTypes are the types that a ResourceQuota or a StorageVersionMigration names. They
// need a monitor even without objects: quota must get the deletion of the first
// object, and a migration reads the monitor of its type. It is safe for concurrent
// use.
type namedTypes struct {
	mu       sync.Mutex
	byObject map[string]map[schema.GroupResource]bool // by UID of the object
	next     chan struct{}                            // closed when types changes
	types    map[schema.GroupResource]bool
}

func newNamedTypes() *namedTypes {
	return &namedTypes{byObject: map[string]map[schema.GroupResource]bool{}, next: make(chan struct{})}
}

// handler returns a handler that follows the types that objects name.
func (n *namedTypes) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.set(obj, typesNamedBy(obj)) },
		UpdateFunc: func(_, obj any) { n.set(obj, typesNamedBy(obj)) },
		DeleteFunc: func(obj any) {
			if object, ok := reconcile.Deleted[any](obj); ok {
				n.set(object, nil)
			}
		},
	}
}

func (n *namedTypes) set(obj any, types map[schema.GroupResource]bool) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return // a tombstone without an object
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	key := string(accessor.GetUID())
	if len(types) == 0 {
		delete(n.byObject, key)
	} else {
		n.byObject[key] = types
	}
	all := map[schema.GroupResource]bool{}
	for _, types := range n.byObject {
		maps.Copy(all, types)
	}
	if maps.Equal(all, n.types) {
		return
	}
	n.types = all
	close(n.next)
	n.next = make(chan struct{})
}

// current returns the types. The caller must not change the map.
func (n *namedTypes) current() map[schema.GroupResource]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.types
}

// changed returns a channel that is closed at the next change.
func (n *namedTypes) changed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next
}

// typesNamedBy returns the types that a ResourceQuota or a migration that has not ended
// names.
func typesNamedBy(obj any) map[schema.GroupResource]bool {
	switch obj := obj.(type) {
	case *corev1.ResourceQuota:
		return quotaTypes(obj)
	case *migrationv1beta1.StorageVersionMigration:
		if done(obj) {
			return nil
		}
		return map[schema.GroupResource]bool{{Group: obj.Spec.Resource.Group, Resource: obj.Spec.Resource.Resource}: true}
	}
	return nil
}

// quotaTypes are the types whose objects the quota counts: "count/widgets.example.com"
// or, of a built-in type, "configmaps".
func quotaTypes(quota *corev1.ResourceQuota) map[schema.GroupResource]bool {
	types := map[schema.GroupResource]bool{}
	for name := range quota.Spec.Hard {
		types[schema.ParseGroupResource(strings.TrimPrefix(string(name), "count/"))] = true
	}
	return types
}

// done reports whether a migration has ended.
func done(migration *migrationv1beta1.StorageVersionMigration) bool {
	for _, condition := range migration.Status.Conditions {
		switch migrationv1beta1.MigrationConditionType(condition.Type) {
		case migrationv1beta1.MigrationSucceeded, migrationv1beta1.MigrationFailed:
			if condition.Status == metav1.ConditionTrue {
				return true
			}
		}
	}
	return false
}
