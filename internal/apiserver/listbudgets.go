package apiserver

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// maxListed bounds the objects, or their size in units of objectSize, of all large lists that
	// are served at the same time. A list takes about 300 bytes for each object, and 1.3 MB for
	// encoding and compression.
	maxListed = 50_000
	// maxUserListed is the same for each user, or the service accounts of a namespace: users
	// who do not read lists leave room for those of others.
	maxUserListed = maxListed / 4
	// maxMastersListed is the same for system:masters, whose lists do not wait for those of
	// other users: two lists of 5,000 at a time leave a part of two processors unused.
	maxMastersListed = 15_000
	// maxControllersListed is the same for the controllers and informers of servers, see
	// requesters.
	maxControllersListed = 10_000
)

// listBudgets bound the number of objects of the lists that are served at the same time.
type listBudgets struct {
	controllers budget
	masters     budget
	others      budget // of all other users

	requesters requesters

	mu    sync.Mutex
	users map[string]*userBudget // by requesters.name; those with lists that wait or are served
}

// budget bounds the number of objects of the lists that are served at the same time to one
// kind of users.
type budget struct {
	*semaphore.Weighted
	size int64
}

// userBudget is the budget of one user, or of the service accounts of one namespace.
type userBudget struct {
	budget
	lists int // that wait or are served
}

func newListBudgets(requesters requesters) *listBudgets {
	return &listBudgets{
		controllers: newBudget(maxControllersListed), masters: newBudget(maxMastersListed), others: newBudget(maxListed),
		requesters: requesters, users: map[string]*userBudget{},
	}
}

func newBudget(size int64) budget { return budget{semaphore.NewWeighted(size), size} }

// acquire waits until the requester of the context may list that many objects, or until
// the context ends. release may be called more than once. A list waits for the lists of
// its user before it takes a place behind those of others. One of more objects than its
// user may list at a time counts as all of those for the user, and in full for the others.
func (b *listBudgets) acquire(ctx context.Context, objects int64) (release func(), ok bool) {
	name := b.requesters.name(ctx)
	switch name {
	case controllerRequesters:
		return b.controllers.acquire(ctx, objects)
	case masterRequesters:
		return b.masters.acquire(ctx, objects)
	}
	own, leave := b.enter(name)
	releaseOwn, ok := own.acquire(ctx, objects)
	if !ok {
		leave()
		return nil, false
	}
	releaseOthers, ok := b.others.acquire(ctx, objects)
	if !ok {
		releaseOwn()
		leave()
		return nil, false
	}
	return sync.OnceFunc(func() {
		releaseOthers()
		releaseOwn()
		leave()
	}), true
}

// acquire waits until a list of that many objects may be served. release may be called
// more than once.
func (b budget) acquire(ctx context.Context, objects int64) (release func(), ok bool) {
	objects = min(objects, b.size)
	if err := b.Acquire(ctx, objects); err != nil {
		return nil, false
	}
	return sync.OnceFunc(func() { b.Release(objects) }), true
}

// enter returns the budget of that name, which is kept until leave is called.
func (b *listBudgets) enter(name string) (own budget, leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.users[name]
	if entry == nil {
		entry = &userBudget{budget: newBudget(maxUserListed)}
		b.users[name] = entry
	}
	entry.lists++
	return entry.budget, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if entry.lists--; entry.lists == 0 {
			delete(b.users, name)
		}
	}
}
