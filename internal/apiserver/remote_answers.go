package apiserver

import (
	"errors"
	"log/slog"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// maxRemoteAnswer bounds an answer of an aggregated API server to a client in this process,
// in bytes. The garbage collector and the namespace controller read whole lists into
// memory; as processes of their own they would end without the API server.
const maxRemoteAnswer = 128 << 20

// limitRemote bounds the answers of aggregated API servers to clients in this process. A
// watch that has reached the bound ends, and its client continues with another one.
func (b *builder) limitRemote(next http.Handler) http.Handler {
	logged := &logging.Changes{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := request.RequestInfoFrom(r.Context())
		if !known || !info.IsResourceRequest || !kube.FromLoopback(r) || !b.isRemote(info) {
			next.ServeHTTP(w, r)
			return
		}
		name := info.APIVersion + "." + info.APIGroup
		exceeded := func() {
			if info.Verb != "watch" && logged.Changed(name+" "+info.Resource, "") {
				slog.Warn("an aggregated API server's answer to this server's controllers is too large", "apiService", name,
					"resource", info.Resource, "verb", info.Verb, "limit", maxRemoteAnswer)
			}
		}
		next.ServeHTTP(responsewriter.WrapForHTTP1Or2(
			&boundedAnswer{ResponseWriter: w, left: maxRemoteAnswer, exceeded: exceeded}), r)
	})
}

// isRemote reports whether an aggregated API server serves the request. It reports false for
// groups that the cache does not have yet.
func (b *builder) isRemote(info *request.RequestInfo) bool {
	if info.APIGroup == "" {
		return false
	}
	service, err := b.remote.services.Get(info.APIVersion + "." + info.APIGroup)
	return err == nil && service.Spec.Service != nil
}

var errTooLarge = errors.New("the answer of the aggregated API server is too large")

// boundedAnswer fails once more than left bytes were written, which ends the answer.
type boundedAnswer struct {
	http.ResponseWriter
	left     int64
	exceeded func()
}

// Unwrap implements [responsewriter.UserProvidedDecorator].
func (a *boundedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write implements [http.ResponseWriter].
func (a *boundedAnswer) Write(p []byte) (int, error) {
	if a.left -= int64(len(p)); a.left < 0 {
		a.exceeded()
		return 0, errTooLarge
	}
	return a.ResponseWriter.Write(p)
}
