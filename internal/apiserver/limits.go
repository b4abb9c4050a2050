package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
)

// watchRetry is the Retry-After of a refused watch, in seconds.
const watchRetry = 30

// limits bounds the watches, lists and writes of each user, and refuses bodies and lists that are
// too large. It is safe for concurrent use.
type limits struct {
	config.Limits
	bodySize   int64 // the largest body, in bytes; 0 for no bound
	serializer runtime.NegotiatedSerializer
	// remote reports whether an aggregated API server serves a request.
	remote func(*request.RequestInfo) bool
	// size returns the size of the stored objects of a resource, in one namespace or, if that is
	// empty, in all.
	size  func(ctx context.Context, resource schema.GroupResource, namespace string) (storage.Size, error)
	taken *budgets
}

// refuse answers a request with the error.
func (l *limits) refuse(w http.ResponseWriter, r *http.Request, info *request.RequestInfo, err error) {
	version := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	responsewriters.ErrorNegotiated(err, l.serializer, version, w, r)
}

// watches refuses the watches of a user above the bound with 429.
func (l *limits) watches(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		name := requesterName(r.Context())
		if !ok || !info.IsResourceRequest || info.Verb != "watch" || l.WatchesPerUser == 0 ||
			name == masterRequesters || name == controllerRequesters {
			next.ServeHTTP(w, r)
			return
		}
		end, ok := l.taken.try(budget{"watches of " + name, int64(l.WatchesPerUser), 1})
		if !ok {
			l.refuse(w, r, info, errors.NewTooManyRequests(fmt.Sprintf("%s has %d open watches, the most that "+
				"limits.watchesPerUser of the server's configuration allows: close watches that are not used, or raise the limit",
				name, l.WatchesPerUser), watchRetry))
			return
		}
		defer end()
		next.ServeHTTP(w, r)
	})
}

// budget is a named limit that requests share, and what one request takes of it. One that takes
// more than size takes all of it.
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
