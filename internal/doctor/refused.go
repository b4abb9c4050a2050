package doctor

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/issuers"
)

// refused reports whether the server refuses the credentials of the kubeconfig, with a
// finding that says what is known about them.
func (s *server) refused(ctx context.Context) bool {
	if slices.ContainsFunc(s.Findings, func(f Finding) bool { return f.Check == "kubeconfig" && f.Severity == Failure }) {
		return false // it says more
	}
	refused := false
	s.check("credentials", func(add func(Finding)) error {
		_, err := s.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if refused = apierrors.IsUnauthorized(err); !refused {
			return err
		}
		f := Finding{
			Severity: Failure, Object: s.Server, Problem: "it refuses the credentials of the kubeconfig",
			Remedy: "have an administrator make new ones: " + program + " kubeconfig create USER",
		}
		if claims := s.sent.claims(); claims != nil {
			f.Problem = "it refuses the token: " + claims.Describe(s.now())
			f.Remedy = "log in again; if it refuses that token too, compare issuer and audience with apiServer.authentication.configFile of the server. " +
				`Its log says why it refuses a token: "Unable to authenticate the request"`
		}
		add(f)
		return nil
	})
	return refused
}

// sentToken keeps the last bearer token that was sent. It is safe for concurrent use.
type sentToken struct {
	mu    sync.Mutex
	token string
}

// follow keeps the tokens that clients of the connection send, also those that a command
// of the kubeconfig has made.
func (t *sentToken) follow(connection *rest.Config) {
	connection.Wrap(func(next http.RoundTripper) http.RoundTripper { return tokenFollower{t, next} })
}

type tokenFollower struct {
	sent *sentToken
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (f tokenFollower) RoundTrip(request *http.Request) (*http.Response, error) {
	if token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer "); ok {
		f.sent.mu.Lock()
		f.sent.token = token
		f.sent.mu.Unlock()
	}
	return f.next.RoundTrip(request)
}

// claims returns those of the token; nil if none was sent that has claims.
func (t *sentToken) claims() *issuers.Claims {
	t.mu.Lock()
	defer t.mu.Unlock()
	return issuers.ParseClaims(t.token)
}

// answers reports whether the server answers requests without credentials.
func answers(ctx context.Context, connection *rest.Config) bool {
	anonymous := rest.AnonymousClientConfig(connection)
	anonymous.Timeout = requestTimeout
	client, err := rest.HTTPClientFor(anonymous)
	if err != nil {
		return false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, anonymous.Host+"/livez", nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil // any answer will do
}
