package crds

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
)

// lazyStore makes the store of one version of a type at its first use: upstream's
// handler opens one for each version, with a watch cache, and clients use one of them. It
// is safe for concurrent use.
type lazyStore struct {
	resource schema.GroupResource
	open     func() (storage.Interface, factory.DestroyFunc, error)

	mu      sync.Mutex
	store   storage.Interface   // nil until the first use
	destroy factory.DestroyFunc // of store
	closed  bool
}

// get returns the store.
func (l *lazyStore) get() (storage.Interface, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, apierrors.NewServiceUnavailable("the storage of " + l.resource.String() + " is closed, try again")
	case l.store == nil:
		store, destroy, err := l.open()
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		l.store, l.destroy = store, destroy
	}
	return l.store, nil
}

// used returns the store, or nil if it was not used yet.
func (l *lazyStore) used() storage.Interface {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.store
}

// close closes the store for ever.
func (l *lazyStore) close() {
	l.mu.Lock()
	destroy := l.destroy
	l.closed, l.destroy = true, nil
	l.mu.Unlock()
	if destroy != nil {
		destroy()
	}
}

// Versioner implements [storage.Interface].
func (l *lazyStore) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Create implements [storage.Interface].
func (l *lazyStore) Create(ctx context.Context, key string, object, out runtime.Object, ttl uint64) error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.Create(ctx, key, object, out, ttl)
}

// Delete implements [storage.Interface].
func (l *lazyStore) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, options storage.DeleteOptions,
) error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.Delete(ctx, key, out, preconditions, validate, cached, options)
}

// Watch implements [storage.Interface].
func (l *lazyStore) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	store, err := l.get()
	if err != nil {
		return nil, err
	}
	return store.Watch(ctx, key, options)
}

// Get implements [storage.Interface].
func (l *lazyStore) Get(ctx context.Context, key string, options storage.GetOptions, object runtime.Object) error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.Get(ctx, key, options, object)
}

// GetList implements [storage.Interface].
func (l *lazyStore) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.GetList(ctx, key, options, list)
}

// GuaranteedUpdate implements [storage.Interface].
func (l *lazyStore) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, cached)
}

// Stats implements [storage.Interface].
func (l *lazyStore) Stats(ctx context.Context) (storage.Stats, error) {
	store, err := l.get()
	if err != nil {
		return storage.Stats{}, err
	}
	return store.Stats(ctx)
}

// ReadinessCheck implements [storage.Interface].
func (l *lazyStore) ReadinessCheck() error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.ReadinessCheck()
}

// RequestWatchProgress implements [storage.Interface].
func (l *lazyStore) RequestWatchProgress(ctx context.Context) error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.RequestWatchProgress(ctx)
}

// GetCurrentResourceVersion implements [storage.Interface].
func (l *lazyStore) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	store, err := l.get()
	if err != nil {
		return 0, err
	}
	return store.GetCurrentResourceVersion(ctx)
}

// EnableResourceSizeEstimation implements [storage.Interface].
func (l *lazyStore) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	store, err := l.get()
	if err != nil {
		return err
	}
	return store.EnableResourceSizeEstimation(keys)
}

// CompactRevision implements [storage.Interface].
func (l *lazyStore) CompactRevision() int64 {
	store, err := l.get()
	if err != nil {
		return 0
	}
	return store.CompactRevision()
}
