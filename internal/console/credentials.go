package console

import (
	"log/slog"
	"net/http"
	"reflect"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// renewing sends requests with the credentials of a kubeconfig. It reads the kubeconfig
// again when the API server refuses them: a user logs in anew, and kube-hyper-mini
// replaces the certificate of its administrator. It is safe for concurrent use.
type renewing struct {
	// load reads the kubeconfig again; nil if there is none.
	load func() (*rest.Config, error)
	log  *slog.Logger

	mu        sync.Mutex
	config    *rest.Config
	transport http.RoundTripper
}

func newRenewing(config *rest.Config, load func() (*rest.Config, error), log *slog.Logger) (*renewing, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	return &renewing{load: load, log: log, config: config, transport: transport}, nil
}

// RoundTrip implements [http.RoundTripper]. A request without a body is sent again with
// new credentials.
func (t *renewing) RoundTrip(r *http.Request) (*http.Response, error) {
	used := t.current()
	answer, err := used.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || !t.renew(used) ||
		(r.Body != nil && r.Body != http.NoBody) {
		return answer, err
	}
	_ = answer.Body.Close() // the answer to the second request counts
	return t.current().RoundTrip(r)
}

// current returns the transport with the newest credentials.
func (t *renewing) current() http.RoundTripper {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.transport
}

// renew reads the kubeconfig again if the transport that was refused is the newest one.
// It returns whether there is another one then. It does not follow a kubeconfig to
// another API server: the page shows objects of the one that it began with.
func (t *renewing) renew(refused http.RoundTripper) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.transport != refused {
		return true
	}
	if t.load == nil {
		return false
	}
	config, err := t.load()
	if err != nil {
		t.log.Debug("cannot read the kubeconfig again", "error", err)
		return false
	}
	if config.Host != t.config.Host || reflect.DeepEqual(credentialsOf(config), credentialsOf(t.config)) {
		return false
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.log.Info("cannot use the new credentials of the kubeconfig", "error", err)
		return false
	}
	utilnet.CloseIdleConnectionsFor(t.transport)
	t.config, t.transport = config, transport
	t.log.Info("the API server has refused the credentials; using the new ones of the kubeconfig")
	return true
}

// credentialsOf returns what identifies the user and the API server.
func credentialsOf(c *rest.Config) []any {
	return []any{c.BearerToken, c.BearerTokenFile, c.Username, c.Password, c.Impersonate, c.ExecProvider,
		c.AuthProvider, c.TLSClientConfig}
}
