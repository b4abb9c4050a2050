package apiserver

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

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
