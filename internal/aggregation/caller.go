package aggregation

import (
	"context"
	"fmt"
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/status/remote"

	"kube-hyper-mini.io/kube-hyper-mini/internal/endpoints"
)

// Caller sends requests of this process to the servers behind remote APIServices, as
// the aggregator's proxy sends those of users. It is safe for concurrent use.
type Caller struct {
	resolver *endpoints.Resolver
	dial     *transport.DialHolder // one: transports are cached by its address
	identity func() (certificate, key []byte, err error)
}

// NewCaller returns a Caller. dial is the Resolver's dialer, which the aggregator's
// proxy also uses; identity returns the current front-proxy certificate and key.
func NewCaller(resolver *endpoints.Resolver, dial utilnet.DialFunc,
	identity func() (certificate, key []byte, err error)) *Caller {
	return &Caller{resolver: resolver, dial: &transport.DialHolder{Dial: dial}, identity: identity}
}

// client is an HTTP client for the server of an APIService. It follows no redirects:
// the caBundle applies to this server only.
func (c *Caller) client(service *apiregistrationv1.APIService) (*http.Client, error) {
	certificate, key, err := c.identity()
	if err != nil {
		return nil, fmt.Errorf("read the front-proxy certificate: %w", err)
	}
	roundTripper, err := transport.New(remote.BuildTransportConfig(c.dial, certificate, key, service))
	if err != nil {
		return nil, fmt.Errorf("prepare TLS with the caBundle of APIService %s: %w", service.Name, err)
	}
	return &http.Client{
		Transport:     roundTripper,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// request is a GET of a path from the server of an APIService. The front-proxy
// certificate authenticates user and groups.
func (c *Caller) request(ctx context.Context, service *apiregistrationv1.APIService, path, user string,
	groups ...string) (*http.Request, error) {
	backend := service.Spec.Service
	location, err := c.resolver.Aggregator().ResolveEndpoint(backend.Namespace, backend.Name, *backend.Port)
	if err != nil {
		return nil, err
	}
	location.Path = path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, location.String(), nil)
	if err != nil {
		return nil, err
	}
	transport.SetAuthProxyHeaders(request, user, "", groups, nil)
	return request, nil
}

// reference returns the `service:` reference of a remote APIService.
func reference(service *apiregistrationv1.APIService) endpoints.Reference {
	return endpoints.Reference{Namespace: service.Spec.Service.Namespace, Name: service.Spec.Service.Name}
}
