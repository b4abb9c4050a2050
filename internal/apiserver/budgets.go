package apiserver

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// budget is what all requests together have that count under a name, and what one of them takes
// of it: more than size counts as all of it.
type budget struct {
	name        string
	size, taken int64
}

// budgets bounds what requests have at the same time. It is safe for concurrent use.
type budgets struct {
	mu   sync.Mutex
	used map[string]*usedBudget // by name; those that requests have or wait for
}

type usedBudget struct {
	*semaphore.Weighted
	users int
}

func newBudgets() *budgets { return &budgets{used: map[string]*usedBudget{}} }

// acquire waits until each of the budgets has room, one after the other, or until ctx ends.
// release may be called more than once.
func (b *budgets) acquire(ctx context.Context, of ...budget) (release func(), ok bool) {
	var releases []func()
	release = sync.OnceFunc(func() {
		for _, release := range releases {
			release()
		}
	})
	for _, budget := range of {
		n, used := min(budget.taken, budget.size), b.begin(budget)
		if err := used.Acquire(ctx, n); err != nil {
			b.end(budget, used)
			release()
			return nil, false
		}
		releases = append(releases, func() {
			used.Release(n)
			b.end(budget, used)
		})
	}
	return release, true
}

// try is acquire of one budget without waiting. release may be called once.
func (b *budgets) try(of budget) (release func(), ok bool) {
	used := b.begin(of)
	if !used.TryAcquire(of.taken) {
		b.end(of, used)
		return nil, false
	}
	return func() {
		used.Release(of.taken)
		b.end(of, used)
	}, true
}

func (b *budgets) begin(of budget) *usedBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	used := b.used[of.name]
	if used == nil {
		used = &usedBudget{Weighted: semaphore.NewWeighted(of.size)}
		b.used[of.name] = used
	}
	used.users++
	return used
}

func (b *budgets) end(of budget, used *usedBudget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if used.users--; used.users == 0 {
		delete(b.used, of.name)
	}
}
