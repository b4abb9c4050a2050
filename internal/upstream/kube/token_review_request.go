package kube

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// Upstream fact: a TokenReview authenticates a request without a path
//
// Mirrors: k8s.io/kubernetes/pkg/registry/authentication/tokenreview.REST.Create
// Why: the request that a TokenReview makes of the token has only a header, and the
//   authenticator of anonymous requests reads the path.
// Gain: a TokenReview of a token that is not accepted says so. Without it, it fails with
//   an internal error.
// Breaks: the authenticator panics, or anonymous requests are refused. Tests:
//   TestReviewOfUnknownToken.

// WithPath authenticates requests that have a path.
func WithPath(delegate authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(request *http.Request) (*authenticator.Response, bool, error) {
		if request.URL == nil {
			return nil, false, nil
		}
		return delegate.AuthenticateRequest(request)
	})
}
