package storage

import (
	"context"
	"errors"
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
		s.caches.stores = []storage.Interface{filled, filling}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.AwaitCaches(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a cache is not filled, got %v", err)
		}
		began := time.Now()
		time.AfterFunc(time.Second, func() { filling.filled.Store(true) })
		if err := s.AwaitCaches(t.Context()); err != nil || time.Since(began) < time.Second {
			t.Errorf("returned after %v: %v", time.Since(began), err)
		}
	})
}
