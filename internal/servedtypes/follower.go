package servedtypes

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Changes reports changes of objects.
type Changes interface {
	// OnChange calls changed, from any goroutine, after each change until remove
	// is called.
	OnChange(changed func()) (remove func())
	// Names returns the names of the objects.
	Names() []string
}

// Follower reports changes of the served types, from informers that its owner
// runs. It is safe for concurrent use.
type Follower struct {
	// CRDs are the changes of CustomResourceDefinitions.
	CRDs Changes
	// APIServices are those of apiregistration.k8s.io/v1.
	APIServices cache.SharedIndexInformer
}

// Remote returns whether a remote APIService serves the group version.
func (t Follower) Remote(gv schema.GroupVersion) bool {
	obj, exists, err := t.APIServices.GetStore().GetByKey(gv.Version + "." + gv.Group)
	if err != nil || !exists {
		return false
	}
	service, ok := obj.(*apiregistrationv1.APIService)
	return ok && service.Spec.Service != nil
}

// OnChange implements [Changes]: it calls changed after CRDs or APIServices have
// changed, which is when the served types may have.
func (t Follower) OnChange(changed func()) (remove func()) {
	removeCRDs, removeAPIServices := t.CRDs.OnChange(changed), Informer{t.APIServices}.OnChange(changed)
	return func() {
		removeCRDs()
		removeAPIServices()
	}
}

// Definitions returns the names of all CRDs.
func (t Follower) Definitions() []string { return t.CRDs.Names() }

// Informer reports the changes of the objects of an informer.
type Informer struct{ cache.SharedIndexInformer }

// OnChange implements [Changes]. It also calls changed for each existing object.
func (i Informer) OnChange(changed func()) (remove func()) {
	registration, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(previous, current any) {
			if !resync(previous, current) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	if err != nil { // the informer has stopped: nothing changes any more
		return func() {}
	}
	// The error is that of a stopped informer.
	return func() { _ = i.RemoveEventHandler(registration) }
}

// Names implements [Changes], for objects without a namespace.
func (i Informer) Names() []string { return i.GetStore().ListKeys() }

// resync reports whether an update is the informer's own, without a change.
func resync(previous, current any) bool {
	before, errBefore := meta.Accessor(previous)
	after, errAfter := meta.Accessor(current)
	return errBefore == nil && errAfter == nil && before.GetResourceVersion() == after.GetResourceVersion()
}

// DropManagedFields is a transform for [cache.SharedInformer.SetTransform]. It saves the memory
// of managed fields, as the transforms of kube-apiserver and kube-controller-manager do.
func DropManagedFields(obj any) (any, error) {
	if accessor, err := meta.Accessor(obj); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return obj, nil
}
