package apiserver

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// maxListed bounds the number of objects of all large lists that are served at the
	// same time. A list takes about 300 bytes for each object, and 1.3 MB for
	// encoding and compression.
	maxListed = 50_000
	// maxUserListed is the same for each user: one who does not read lists leaves room for
	// those of others. With 10,000, two lists of 5,000 at a time leave a part of two
	// processors unused.
	maxUserListed = 25_000
	// maxPrivilegedListed is the same for those whose lists do not wait for lists of other
	// users, see isPrivileged.
	maxPrivilegedListed = 25_000
)

// listBudgets bound the number of objects of the lists that are served at the same time.
type listBudgets struct {
	privileged budget
	others     budget // of all users that are not privileged

	mu    sync.Mutex
	users map[string]*userBudget // see budgetName; those with lists that wait or are served
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

func newListBudgets() *listBudgets {
	return &listBudgets{privileged: newBudget(maxPrivilegedListed), others: newBudget(maxListed), users: map[string]*userBudget{}}
}

func newBudget(size int64) budget { return budget{semaphore.NewWeighted(size), size} }

// acquire waits until the requester of the context may list that many objects, or until
// the context ends. release may be called more than once. A list waits for the lists of
// its user before it takes a place behind those of others.
func (b *listBudgets) acquire(ctx context.Context, objects int64) (release func(), ok bool) {
	requester, known := request.UserFrom(ctx)
	if !known {
		requester = &user.DefaultInfo{}
	}
	if isPrivileged(requester) {
		return b.privileged.acquire(ctx, objects)
	}
	objects = min(objects, maxUserListed)
	own, leave := b.enter(budgetName(requester))
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

// budgetName returns the name of the budget of a user. The service accounts of a namespace
// have one together: who may create one may create any number.
func budgetName(requester user.Info) string {
	if namespace, _, err := serviceaccount.SplitUsername(requester.GetName()); err == nil {
		return serviceaccount.MakeUsername(namespace, "") // no user has this name
	}
	return requester.GetName()
}

// isPrivileged reports whether lists of the user do not wait for those of others:
// system:masters, and the controllers of servers, which upstream's flow control gives a
// priority level of their own, too.
func isPrivileged(requester user.Info) bool {
	namespace, _, err := serviceaccount.SplitUsername(requester.GetName())
	return slices.Contains(requester.GetGroups(), user.SystemPrivilegedGroup) ||
		requester.GetName() == user.KubeControllerManager ||
		err == nil && namespace == metav1.NamespaceSystem
}
