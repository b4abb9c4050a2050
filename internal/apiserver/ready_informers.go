package apiserver

import (
	"maps"
	"reflect"
	"sync/atomic"

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
