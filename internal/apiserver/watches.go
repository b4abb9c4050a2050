package apiserver

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// watchRetry is the Retry-After of a refused watch, in seconds.
const watchRetry = 30

// watchLimit bounds the open watches of each user. It is safe for concurrent use.
type watchLimit struct {
	requesters requesters
	most       int // 0 for no bound
	serializer runtime.NegotiatedSerializer
	open       *budgets
}

func newWatchLimit(most int, requesters requesters, serializer runtime.NegotiatedSerializer) *watchLimit {
	return &watchLimit{requesters: requesters, most: most, serializer: serializer, open: newBudgets()}
}

// limit refuses the watches above the bound with 429.
func (l *watchLimit) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || info.Verb != "watch" || l.most == 0 {
			next.ServeHTTP(w, r)
			return
		}
		name := l.requesters.name(r.Context())
		if name == masterRequesters || name == controllerRequesters {
			next.ServeHTTP(w, r)
			return
		}
		end, ok := l.open.try(budget{name, int64(l.most), 1})
		if !ok {
			err := errors.NewTooManyRequests(fmt.Sprintf("%q has %d open watches, the most that limits.watchesPerUser of "+
				"the server's configuration allows: "+
				"close watches that are not used, or raise the limit", name, l.most), watchRetry)
			responsewriters.ErrorNegotiated(err, l.serializer,
				schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
			return
		}
		defer end()
		next.ServeHTTP(w, r)
	})
}
