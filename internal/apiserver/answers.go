package apiserver

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

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

// The answer of a webhook may have minAnswer bytes more than answerFactor times the
// request: a conversion of a list has all its objects. Upstream reads an answer into
// memory until the timeout of the request, 30 s for conversions: 18 GB of one that does
// not end.
const (
	minAnswer    = 32 << 20
	answerFactor = 4
)

// webhookUser is the user of requests to webhooks at the Service default/kubernetes, which is
// this server. Upstream sends them as system:masters: who writes a webhook would
// have the server call any path with all rights.
const webhookUser = "system:kube-hyper-mini:webhooks"

// limitAnswers limits the answers to the clients of webhooks, and the rights of the requests
// to this server.
func limitAnswers(clients webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	limited := func(config *rest.Config, err error) (*rest.Config, error) {
		if err != nil {
			return nil, err
		}
		config = rest.CopyConfig(config) // it may be the loopback client's
		if config.Host == kube.LoopbackHost {
			config.Impersonate.UserName = webhookUser
		}
		config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &answerLimit{inner} })
		return config, nil
	}
	return &webhook.AuthenticationInfoResolverDelegator{
		ClientConfigForFunc: func(hostPort string) (*rest.Config, error) {
			return limited(clients.ClientConfigFor(hostPort))
		},
		ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
			return limited(clients.ClientConfigForService(name, namespace, port))
		},
	}
}

// answerLimit is the transport of a client of webhooks. It also refuses redirects to other
// hosts, which would reach addresses that serviceEndpointPolicy denies.
type answerLimit struct{ inner http.RoundTripper }

// WrappedRoundTripper implements utilnet.RoundTripperWrapper.
func (l *answerLimit) WrappedRoundTripper() http.RoundTripper { return l.inner }

// RoundTrip implements [http.RoundTripper].
func (l *answerLimit) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	redirects := answer.StatusCode >= http.StatusMultipleChoices && answer.StatusCode < http.StatusBadRequest
	if location, err := answer.Location(); redirects && err == nil && location.Host != r.URL.Host {
		_ = answer.Body.Close() // it is not read
		return nil, fmt.Errorf("the webhook redirects to another host, %s, which is not followed", location.Host)
	}
	limit := minAnswer + answerFactor*max(r.ContentLength, 0)
	answer.Body = &limitedBody{ReadCloser: answer.Body, limit: limit, left: limit}
	return answer, nil
}

// limitedBody fails once more than limit bytes have been read.
type limitedBody struct {
	io.ReadCloser
	limit, left int64
}

// Read implements [io.Reader].
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer of the webhook has more than %d bytes", b.limit)
	}
	return n, err
}
