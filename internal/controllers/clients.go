package controllers

import (
	"context"
	"fmt"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// asManager returns the client configuration of the user
// system:kube-controller-manager. The informers and the tokens controller use it, as
// in kube-controller-manager.
func (c *Config) asManager() *rest.Config {
	client := rest.CopyConfig(c.Client)
	if !c.Manager && !c.FullRights {
		client.Impersonate = rest.ImpersonationConfig{UserName: user.KubeControllerManager}
	}
	return client
}

// asServiceAccount returns the client configuration of the service account of a
// controller, as kube-controller-manager with --use-service-account-credentials: the
// bootstrap policy has a role for each, and flow control a priority level for all.
func asServiceAccount(client *rest.Config, name string) *rest.Config {
	client = rest.CopyConfig(client)
	client.Impersonate = rest.ImpersonationConfig{UserName: serviceaccount.MakeUsername(metav1.NamespaceSystem, name)}
	return client
}

// managerConfig is asManager with the name in the user agent.
func (e *environment) managerConfig(name string) *rest.Config {
	return withAgent(e.config.asManager(), name)
}

// accountConfig returns the client configuration of the service account name.
func (e *environment) accountConfig(name string) *rest.Config {
	if e.config.FullRights {
		return withAgent(e.config.Client, name)
	}
	return withAgent(asServiceAccount(e.config.Client, name), name)
}

// metadata returns a metadata client of the service account.
func (e *environment) metadata(name string) (metadata.Interface, error) {
	client, err := metadata.NewForConfig(e.accountConfig(name))
	if err != nil {
		return nil, fmt.Errorf("make the metadata client: %w", err)
	}
	return client, nil
}

func withAgent(client *rest.Config, name string) *rest.Config {
	return rest.AddUserAgent(rest.CopyConfig(client), name)
}

// boundTo returns a client configuration whose requests also end with ctx: clients of
// discovery take no context, and wait half a minute for a server that does not answer.
func boundTo(ctx context.Context, client *rest.Config) *rest.Config {
	client = rest.CopyConfig(client)
	client.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundTransport{ctx, next} })
	return client
}

type boundTransport struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t boundTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	unlink := context.AfterFunc(t.ctx, cancel)
	end := func() {
		unlink()
		cancel()
	}
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	response.Body = boundBody{response.Body, end}
	return response, nil
}

// boundBody is the body of a response whose context ends with Close.
type boundBody struct {
	io.ReadCloser
	end func()
}

// Close implements [io.Closer].
func (b boundBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
