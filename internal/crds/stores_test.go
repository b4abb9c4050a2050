package crds

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// unready is a store whose watch cache is never filled, as with an object that
// cannot be decoded.
type unready struct{ storage.Interface }

func (unready) ReadinessCheck() error { return storage.ErrStorageNotReady }

func (unready) Get(context.Context, string, storage.GetOptions, runtime.Object) error { return nil }

func (unready) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	return storage.ErrStorageNotReady
}

func (unready) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return nil, storage.ErrStorageNotReady
}

// TestReadsOfAnUnreadyStore: lists and watches wait for the watch cache, reads
// of one object do not need it.
func TestReadsOfAnUnreadyStore(t *testing.T) {
	store := readyStore{unready{}}
	for _, test := range []struct {
		name string
		read func(context.Context) error
		want time.Duration
		err  error
	}{
		{"get", func(ctx context.Context) error { return store.Get(ctx, "/a", storage.GetOptions{}, nil) }, 0, nil},
		{"list", func(ctx context.Context) error { return store.GetList(ctx, "/", storage.ListOptions{}, nil) }, readyTimeout, storage.ErrStorageNotReady},
		{"watch", func(ctx context.Context) error {
			_, err := store.Watch(ctx, "/", storage.ListOptions{})
			return err
		}, readyTimeout, storage.ErrStorageNotReady},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := test.read(t.Context())
				if took := time.Since(start); err != test.err || took != test.want {
					t.Errorf("got %v after %s, want %v after %s", err, took, test.err, test.want)
				}
			})
		})
	}
}
