package apiserver

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// shares bounds how much each requester has at the same time. It is safe for concurrent
// use.
type shares struct {
	size int64 // of a share

	mu    sync.Mutex
	taken map[string]*share // by name of the requester; those that are used
}

type share struct {
	*semaphore.Weighted
	users int // that wait or have a part of it
}

func newShares(size int64) *shares { return &shares{size: size, taken: map[string]*share{}} }

// acquire waits until the requester has n left, or until ctx ends. More than a share counts
// as a whole one. release may be called more than once.
func (s *shares) acquire(ctx context.Context, name string, n int64) (release func(), ok bool) {
	n = min(n, s.size)
	s.mu.Lock()
	own := s.taken[name]
	if own == nil {
		own = &share{Weighted: semaphore.NewWeighted(s.size)}
		s.taken[name] = own
	}
	own.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.taken, name)
		}
	}
	if err := own.Acquire(ctx, n); err != nil {
		leave()
		return nil, false
	}
	return sync.OnceFunc(func() {
		own.Release(n)
		leave()
	}), true
}
