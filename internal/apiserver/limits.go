package apiserver

import (
	"context"
	"fmt"
	"net/http"

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
	requesters requesters
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
		name := l.requesters.name(r.Context())
		if !ok || !info.IsResourceRequest || info.Verb != "watch" || l.WatchesPerUser == 0 ||
			name == masterRequesters || name == controllerRequesters {
			next.ServeHTTP(w, r)
			return
		}
		end, ok := l.taken.try(budget{"watches of " + name, int64(l.WatchesPerUser), 1})
		if !ok {
			l.refuse(w, r, info, errors.NewTooManyRequests(fmt.Sprintf("%q has %d open watches, the most that "+
				"limits.watchesPerUser of the server's configuration allows: close watches that are not used, or raise the limit",
				name, l.WatchesPerUser), watchRetry))
			return
		}
		defer end()
		next.ServeHTTP(w, r)
	})
}
