package apiserver

import (
	"fmt"
	"maps"
	"reflect"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
)

// readyInformers are the informers of the API server. The readiness check informer-sync
// waits for those that were started with the server. The controllers start others later,
// for types whose first object comes, and do not make the server unready.
type readyInformers struct {
	informers.SharedInformerFactory
	own atomic.Pointer[map[reflect.Type]bool] // nil until settle
}

// settle determines the informers of the server: those that were started by now.
func (f *readyInformers) settle() {
	now := make(chan struct{})
	close(now)
	own := f.SharedInformerFactory.WaitForCacheSync(now)
	f.own.Store(&own)
}

// WaitForCacheSync implements [informers.SharedInformerFactory].
func (f *readyInformers) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	synced := f.SharedInformerFactory.WaitForCacheSync(stop)
	if own := f.own.Load(); own != nil {
		maps.DeleteFunc(synced, func(informer reflect.Type, _ bool) bool {
			_, found := (*own)[informer]
			return !found
		})
	}
	return synced
}

// ForResource implements [informers.SharedInformerFactory]. Policies make dynamic informers for
// parameters without an informer here: these lack the data of config maps and secrets (see
// [servedtypes.DropUnread]).
func (f *readyInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if resource.Group == corev1.GroupName && (resource.Resource == "configmaps" || resource.Resource == "secrets") {
		return nil, fmt.Errorf("the informers of %s have no data", resource.Resource)
	}
	return f.SharedInformerFactory.ForResource(resource)
}
