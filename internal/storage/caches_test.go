package storage

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/storage"
)

// fillingStore is a store whose watch cache may not be filled.
type fillingStore struct {
	storage.Interface
	filled atomic.Bool
}

func (s *fillingStore) ReadinessCheck() error {
	if s.filled.Load() {
		return nil
	}
	return storage.ErrStorageNotReady
}

func TestAwaitCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, filled, filling := &Storage{}, &fillingStore{}, &fillingStore{}
		filled.filled.Store(true)
		s.caches.add(filled)
		s.caches.add(filling)
		wait := func(ctx context.Context, want time.Duration, when string) {
			t.Helper()
			began := time.Now()
			s.AwaitCaches(ctx)
			if took := time.Since(began); took < want || took > want+cachePoll {
				t.Errorf("%s: returned after %v, want %v", when, took, want)
			}
		}
		wait(t.Context(), cachesTimeout, "a cache is never filled")
		ctx, cancel := context.WithTimeout(t.Context(), cachesTimeout/2)
		defer cancel()
		wait(ctx, cachesTimeout/2, "a stop during the wait")
		time.AfterFunc(cachesTimeout/3, func() { filling.filled.Store(true) })
		wait(t.Context(), cachesTimeout/3, "a cache is filled later")
		wait(t.Context(), 0, "all caches are filled")
	})
}
