package reconcile

import "k8s.io/client-go/tools/cache"

// Deleted returns the object of a call of an informer's handler, also of the call about a
// deletion that the informer has missed, which has the object in its last known state. ok
// is false for an object of another type.
func Deleted[T any](obj any) (object T, ok bool) {
	if unknown, missed := obj.(cache.DeletedFinalStateUnknown); missed {
		obj = unknown.Obj
	}
	object, ok = obj.(T)
	return object, ok
}
