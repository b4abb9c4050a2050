package servedtypes

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// DropUnread is a transform for [cache.SharedInformer.SetTransform]. It drops managed fields, as
// the transforms of kube-apiserver and kube-controller-manager do, and the data of config maps
// and secrets that no controller reads, which would be in memory a second time. Controllers
// read tokens, kube-root-ca.crt and the config maps of the namespaces of the system.
func DropUnread(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // a tombstone
	}
	accessor.SetManagedFields(nil)
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		if o.Name != "kube-root-ca.crt" && o.Namespace != metav1.NamespaceSystem && o.Namespace != metav1.NamespacePublic {
			o.Data, o.BinaryData = nil, nil
		}
	case *corev1.Secret:
		if o.Type != corev1.SecretTypeServiceAccountToken && o.Type != corev1.SecretTypeBootstrapToken {
			o.Data = nil
		}
	}
	return obj, nil
}

const (
	// ViewRole and EditRole are the cluster roles that have the types of all CRDs.
	ViewRole = "kube-hyper-mini:custom-resources:view"
	EditRole = "kube-hyper-mini:custom-resources:edit"
)

// Roles are ViewRole and EditRole without rules, which a controller writes. They are part of
// the roles view and edit, and so of admin.
func Roles() []rbacv1.ClusterRole {
	role := func(name, label string) rbacv1.ClusterRole {
		return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}}
	}
	return []rbacv1.ClusterRole{
		role(ViewRole, "rbac.authorization.k8s.io/aggregate-to-view"),
		role(EditRole, "rbac.authorization.k8s.io/aggregate-to-edit"),
	}
}
